// One stream of events a browser, whatever number of tabs it has: HTTP/1.1 has six connections for a host. It is told to all tabs.
import type { Schemas } from './api'
import { messages } from './sse'

/** Sighting is that something was seen of a cluster's nodes or jobs. */
export type Sighting = { cluster_id: string; cluster: string; project: string; at: string }

/** News is what tabs are told. */
export type News =
  | { kind: 'event'; event: Schemas['Event'] }
  | { kind: 'seen'; of: Sighting } // what no event tells
  | { kind: 'live'; since: number } // connected since then
  | { kind: 'cut'; since: number; again: number } // not connected since then; tried again then
  | { kind: 'signed-out' }

const tabs = new BroadcastChannel(self.name)
let state: News = { kind: 'cut', since: Date.now(), again: Date.now() }
let asked = 0 // times that a tab has asked for another try
let wake = () => {}

function tell(news: News) {
  if (news.kind !== 'event' && news.kind !== 'seen') state = news
  tabs.postMessage(news)
}

/** rest lasts for some time, or until a tab asks for another try, if none has since try number n. */
function rest(milliseconds: number, n: number) {
  if (asked !== n) return Promise.resolve()
  return new Promise<void>((resolve) => {
    wake = resolve
    if (Number.isFinite(milliseconds)) setTimeout(resolve, milliseconds)
  })
}

/** pauses are how long to wait before the stream is asked for again, in seconds. */
const pauses = [1, 2, 5, 10]

/** silence is how long a stream may say nothing, in milliseconds: the controller says something each 15 s. */
const silence = 45_000

/** heard is a stream that fails once nothing was heard of it for too long. */
function heard(body: ReadableStream<Uint8Array<ArrayBuffer>>): ReadableStream<Uint8Array<ArrayBuffer>> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const watch = (control: TransformStreamDefaultController<Uint8Array<ArrayBuffer>>) => {
    clearTimeout(timer)
    timer = setTimeout(() => control.error(new Error('silent')), silence)
  }
  return body.pipeThrough(
    new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      start: watch,
      transform(chunk, control) {
        watch(control)
        control.enqueue(chunk)
      },
      flush: () => clearTimeout(timer),
    }),
  )
}

async function follow() {
  let last = ''
  for (let failures = 0; ;) {
    const n = asked
    try {
      const response = await fetch('/v1/events?watch=true&seen=true' + (last ? '' : '&newest=true'), {
        headers: last ? { 'Last-Event-ID': last } : {},
      })
      if (response.status === 401) {
        last = ''
        tell({ kind: 'signed-out' })
        await rest(Infinity, n) // until somebody has signed in
        continue
      }
      if (!response.ok || !response.body) throw new Error(String(response.status))
      failures = 0
      tell({ kind: 'live', since: Date.now() })
      for await (const m of messages(heard(response.body))) {
        if (m.type === 'seen') {
          tell({ kind: 'seen', of: JSON.parse(m.data) as Sighting })
          continue
        }
        last = m.id
        tell({ kind: 'event', event: JSON.parse(m.data) as Schemas['Event'] })
      }
    } catch {
      // it is asked for again
    }
    const pause = 1000 * (pauses[Math.min(failures++, pauses.length - 1)] ?? 10) * (0.75 + Math.random() / 2)
    const since = state.kind === 'cut' ? state.since : Date.now()
    tell({ kind: 'cut', since, again: Date.now() + pause })
    await rest(pause, n)
  }
}

// A tab that comes asks for the state; one whose user has signed in asks for another try.
function hear(m: MessageEvent<'state' | 'again'>) {
  if (m.data === 'again') {
    asked++
    wake()
  } else tabs.postMessage(state)
}

addEventListener('connect', (e) => {
  const port = (e as MessageEvent).ports[0]
  port?.addEventListener('message', hear)
  port?.start()
})
addEventListener('message', (e) => hear(e as MessageEvent<'state' | 'again'>)) // where a browser has no shared workers

void follow()
