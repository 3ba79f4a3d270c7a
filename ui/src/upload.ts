// Sending files. fetch does not tell how far it has come.
import { type Problem, Refused } from './api'

/** contentOf is where the content of a file of a cluster is read and written. */
export const contentOf = (cluster: string, path: string, replace = false) =>
  `/v1/clusters/${encodeURIComponent(cluster)}/files/content?${new URLSearchParams({ path, ...(replace && { replace: 'true' }) })}`

/** below is the path of something in a directory. */
export const below = (directory: string, name: string) => `${directory === '/' ? '' : directory}/${name}`

/** stepsTo are the directories on the way to a path, from the root on: names and paths. */
export function stepsTo(path: string): (readonly [name: string, path: string])[] {
  const names = path.split('/').filter((name) => name !== '')
  return [['/', '/'], ...names.map((name, i) => [name, `/${names.slice(0, i + 1).join('/')}`] as const)]
}

/**
 * send sends a file, and tells how many of its bytes are sent. It throws why it was not taken, unless it was stopped. A controller
 * that is busy is asked again, twice.
 */
export async function send(address: string, file: Blob, tell: (bytes: number) => void, stop: AbortSignal): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      return await put(address, file, tell, stop)
    } catch (why) {
      if (tries === 2 || !(why instanceof Refused) || ![429, 503].includes(why.problem.status)) throw why
      await new Promise((go) => setTimeout(go, 3000))
      if (stop.aborted) return
    }
  }
}

function put(address: string, file: Blob, tell: (bytes: number) => void, stop: AbortSignal): Promise<void> {
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest()
    const refused = () => {
      let told: Partial<Problem> = {}
      try {
        told = JSON.parse(request.responseText) as Partial<Problem>
      } catch {
        // not the controller's words
      }
      const { status } = request
      return new Refused({ title: '', status, code: 'internal', detail: `the controller answered ${status}`, ...told })
    }
    request.open('PUT', address)
    request.setRequestHeader('Content-Type', 'application/octet-stream')
    request.upload.onprogress = (e) => tell(e.loaded)
    request.onload = () => (request.status < 300 ? done() : fail(refused()))
    request.onerror = () => fail(new Error('The connection was cut. It may have been refused, or it is a folder.'))
    request.onabort = () => done()
    stop.addEventListener('abort', () => request.abort())
    request.send(file)
  })
}
