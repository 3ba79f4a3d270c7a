// Files that are on their way to a cluster: one after the other, as long as the page is open.
import { useBlocker } from '@tanstack/react-router'
import { useCallback, useEffect, useRef, useState } from 'react'

import { Refused } from '../api'
import { Panel, Wrong } from '../parts/panel'
import { below, contentOf, send } from '../upload'
import { bytes, count } from '../words'

type Upload = { id: number; file: File; directory: string; replace: boolean; sent: number; why?: Error }

/** most is how many are shown of each kind. */
const most = 20

/** ofAll says whether the reason why a file was not taken is one for all that come after it. */
const ofAll = (why: Error) => !(why instanceof Refused) || ![400, 404, 409, 422].includes(why.problem.status)

/** useUploads are those to a cluster, which stays the same. done is called when there are no more, and now and then before. */
export function useUploads(cluster: string, done: () => void) {
  const [waiting, setWaiting] = useState<Upload[]>([])
  const [failed, setFailed] = useState<Upload[]>([])
  const [arrived, setArrived] = useState(0)
  const numbers = useRef(0)
  const stop = useRef<AbortController>(undefined)
  const told = useRef({ done, at: 0 })
  told.current.done = done
  const latest = useRef(waiting)
  latest.current = waiting
  const now = waiting[0]
  const id = now?.id

  const add = useCallback((directory: string, files: File[], replaced?: Set<string>) => {
    const more = files.map((file) => ({
      id: ++numbers.current,
      file,
      directory,
      replace: replaced?.has(file.name) ?? false,
      sent: 0,
    }))
    setWaiting((all) => [...all, ...more])
  }, [])
  const cancel = (id: number) => {
    if (id === now?.id) stop.current?.abort()
    setWaiting((all) => all.filter((u) => u.id !== id))
  }
  useEffect(() => {
    if (!now) return
    const ends = new AbortController()
    stop.current = ends
    const { file, directory, replace } = now
    const sent = (bytes: number) => setWaiting((all) => all.map((u) => (u.id === now.id ? { ...u, sent: bytes } : u)))
    const next = () => setWaiting((all) => all.filter((u) => u.id !== now.id))
    send(contentOf(cluster, below(directory, file.name), replace), file, sent, ends.signal).then(
      () => {
        if (ends.signal.aborted) return
        setArrived((n) => n + 1)
        next()
        if (latest.current.length <= 1 || Date.now() < told.current.at + 5000) return
        told.current.at = Date.now()
        told.current.done()
      },
      (why: Error) => {
        if (!ofAll(why)) {
          setFailed((all) => [...all, { ...now, why }])
          next()
          return
        }
        setFailed((before) => [...before, ...latest.current.map((u) => ({ ...u, why }))])
        setWaiting([])
      },
    )
    return () => ends.abort()
  }, [cluster, id])
  useEffect(() => {
    if (id === undefined && numbers.current > 0) told.current.done()
  }, [id])
  useBlocker({
    shouldBlockFn: ({ current, next }) =>
      id !== undefined &&
      current.pathname !== next.pathname &&
      !window.confirm('What is not uploaded yet is cancelled when you leave this page. Leave it?'),
    enableBeforeUnload: () => id !== undefined,
  })
  useEffect(() => {
    // a file that is dropped beside its place must not be shown instead of the page
    const stay = (e: Event) => e.preventDefault()
    window.addEventListener('dragover', stay)
    window.addEventListener('drop', stay)
    return () => {
      window.removeEventListener('dragover', stay)
      window.removeEventListener('drop', stay)
    }
  }, [])
  const clear = () => setFailed([])
  const again = () => {
    setWaiting((all) => [...all, ...failed.map((u) => ({ ...u, sent: 0 }))])
    clear()
  }
  return { waiting, failed, arrived, add, cancel, clear, again }
}

/** Uploads are those that wait or have failed, and how many have arrived. */
export function Uploads({ waiting, failed, arrived, cancel, clear, again }: ReturnType<typeof useUploads>) {
  return (
    <>
      <p className="sr" role="status">
        {arrived > 0 && `${count(arrived, 'file')} uploaded`}
      </p>
      {waiting.length + failed.length > 0 && (
        <Panel
          title="Uploads"
          beside={waiting.length > 0 && <span className="dim">They are cancelled when you leave this page.</span>}
          more={
            failed.length > 0 && (
              <span className="line">
                <button type="button" className="btn quiet small" onClick={again}>
                  Try again
                </button>
                <button type="button" className="btn quiet small" onClick={clear}>
                  Forget those that failed
                </button>
              </span>
            )
          }
        >
          <ul className="in stack gap-12">
            {waiting.slice(0, most).map((u) => (
              <li className="line" key={u.id}>
                <bdi className="grow">{u.file.name}</bdi>
                <progress aria-label={`Upload of ${u.file.name}`} max={Math.max(u.file.size, 1)} value={u.sent} />
                <span className="dim">
                  {bytes(u.sent)} of {bytes(u.file.size)}
                </span>
                <button type="button" className="btn quiet small" onClick={() => cancel(u.id)}>
                  Cancel<span className="sr"> {u.file.name}</span>
                </button>
              </li>
            ))}
            {waiting.length > most && <li className="dim">And {waiting.length - most} more.</li>}
            {failed.length > 0 && (
              <li>
                Not uploaded:{' '}
                {failed.slice(0, most).map((u, i) => (
                  <span key={u.id}>
                    {i > 0 && ', '}
                    <bdi>{u.file.name}</bdi>
                  </span>
                ))}
                {failed.length > most && ` and ${failed.length - most} more`}
              </li>
            )}
          </ul>
          {failed.at(-1)?.why && <Wrong why={failed.at(-1)?.why as Error} />}
        </Panel>
      )}
    </>
  )
}
