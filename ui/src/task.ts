// Tasks: what runs on a cluster for somebody who has asked for it here.
import { answer, api, type Schemas } from './api'

/** most is how much of an output is shown: its end. */
const most = 256 << 10

/** Output is the end of what a task has written, of that which is kept; more is how many bytes are not. */
export type Output = { text: string; more: number }

/** outputOf waits until a task of one's own has ended, or for so many seconds, and throws what it says if it has failed. */
export async function outputOf(task: Schemas['Task'], seconds: number): Promise<Output> {
  const decoder = new TextDecoder()
  const until = Date.now() + seconds * 1000
  let text = ''
  for (let from = 0; ;) {
    const piece = await answer(api.GET('/v1/tasks/{task}/output', { params: { path: { task: task.id }, query: { from } } }))
    text = (
      text +
      decoder.decode(
        Uint8Array.from(atob(piece.bytes), (c) => c.charCodeAt(0)),
        { stream: true },
      )
    ).slice(-most)
    from = piece.next
    if (piece.bytes !== '') continue
    if (piece.task_ended) break
    if (Date.now() > until) return { text, more: 0 }
    await new Promise((go) => setTimeout(go, 500))
  }
  const now = await answer(api.GET('/v1/tasks/{task}', { params: { path: { task: task.id } } }))
  if (now.outcome !== 'ok') throw new Error(text.trim() || now.reason || `It ended as ${now.outcome}.`)
  return { text, more: now.bytes - now.kept }
}
