// A terminal on a cluster. Its number stands in the address, so that it is there again when the page is loaded again.
import '@xterm/xterm/css/xterm.css'

import { FitAddon } from '@xterm/addon-fit'
import { Terminal as XTerm } from '@xterm/xterm'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useEffect, useId, useRef, useState } from 'react'

import { answer, Refused } from '../api'
import { useNow } from '../parts/time'
import { useTitle } from '../parts/title'
import { span } from '../words'
import { type Place, type Refusal, type State, Wire } from '../wire'

const route = getRouteApi('/projects/$project/clusters/$cluster/terminal')

const font = '"Geist Mono Variable", monospace'

/** aloud is where the browser keeps that a screen reader is to hear terminals. */
const aloud = 'terminals-aloud'

export function Terminal() {
  const { project, cluster } = route.useParams()
  const { node, terminal } = route.useSearch()
  const navigate = useNavigate({ from: '/projects/$project/clusters/$cluster/terminal' })
  const id = useRef(terminal)
  const box = useRef<HTMLDivElement>(null)
  const out = useRef<HTMLAnchorElement>(null)
  const shown = useRef<XTerm>(null)
  const hint = useId()
  const [state, setState] = useState<State>({ is: 'opening' })
  const [round, setRound] = useState(0)
  const [read, setRead] = useState(() => localStorage.getItem(aloud) === 'on')
  useTitle(`Terminal on ${node ?? cluster}`)

  useEffect(() => {
    if (terminal === id.current) return
    id.current = terminal // somebody went back to another one
    setRound((n) => n + 1)
  }, [terminal])
  useEffect(() => {
    if (!box.current) return
    const screen = screenFor(box.current)
    shown.current = screen
    return show(
      box.current,
      screen,
      { cluster: `${project}/${cluster}`, node },
      { id: id.current, hint },
      {
        leave: () => out.current?.focus(),
        tell: (state, now) => {
          setState(state)
          if (now === id.current) return
          id.current = now
          void navigate({ search: { ...(node && { node }), ...(now && { terminal: now }) }, replace: true })
        },
      },
    )
  }, [project, cluster, node, round, hint, navigate])
  useEffect(() => {
    if (shown.current) shown.current.options.screenReaderMode = read
  }, [read, round, project, cluster, node])

  const again = (same: boolean) => {
    if (!same) id.current = undefined
    setRound(round + 1)
  }
  const readAloud = () => {
    localStorage.setItem(aloud, read ? 'off' : 'on')
    setRead(!read)
  }
  return (
    <div className="term">
      <div className="bar">
        <h1>
          Terminal on {node && `${node} of `}
          <Link ref={out} to="/projects/$project/clusters/$cluster" params={{ project, cluster }}>
            {cluster}
          </Link>
        </h1>
        <Standing state={state} again={again} />
        <span className="grow" />
        <span className="dim hint" id={hint}>
          <kbd>Shift Esc</kbd> leaves the terminal. <kbd>Ctrl Shift C</kbd> copies, <kbd>Ctrl Shift V</kbd> pastes.
        </span>
        <button type="button" className="btn quiet small" aria-pressed={read} onClick={readAloud}>
          For screen readers
        </button>
      </div>
      <div className="screen" ref={box} />
    </div>
  )
}

/** Standing says how it is with the terminal, and what can be done about it. */
function Standing({ state, again }: { state: State; again: (same: boolean) => void }) {
  const now = useNow()
  const words = {
    opening: 'Connecting',
    open: 'Connected',
    cut: 'Not connected',
    elsewhere: 'Another tab shows it.',
    ended: (state.is === 'ended' && state.why) || 'It has ended.',
  }[state.is]
  return (
    <>
      <span role="status" className={state.is === 'open' ? 'sr' : state.is === 'cut' ? 't-warn' : 'dim'}>
        {words}
        {state.is === 'cut' && state.why && `: ${state.why}`}
      </span>
      {state.is === 'cut' && (
        <span className="t-warn" aria-hidden="true">
          tries again in {span(Math.max(0, state.again - now) / 1000)}
        </span>
      )}
      {(state.is === 'elsewhere' || state.is === 'ended') && (
        <button type="button" className="btn small" onClick={() => again(state.is === 'elsewhere')}>
          {state.is === 'elsewhere' ? 'Show it here' : 'Open another'}
        </button>
      )}
    </>
  )
}

/** refusals asks the API why a terminal does not open. That nothing is in its way (426) may be so by now; but not twice in a row. */
function refusals() {
  let open = false
  return async (path: string): Promise<Refusal> => {
    const before = open
    open = false
    try {
      const response = await fetch(path, { signal: AbortSignal.timeout(10_000) })
      await answer(response.json().then((error: unknown) => ({ error, response })))
    } catch (why) {
      if (!(why instanceof Refused)) return undefined
      const { status, detail } = why.problem
      open = status === 426
      if (open) return { why: 'something between here and the controller lets no WebSocket through', over: before }
      return { why: detail, over: status < 429 }
    }
    return undefined
  }
}

/** longest is how much can be pasted at once, in characters. */
const longest = 1 << 20

function screenFor(box: HTMLElement) {
  const style = getComputedStyle(box)
  return new XTerm({
    fontFamily: font,
    fontSize: 13,
    lineHeight: 1.2,
    scrollback: 10_000,
    minimumContrastRatio: 4.5,
    linkHandler: { activate: () => undefined }, // what a program shows leads nowhere
    theme: { background: style.backgroundColor, foreground: style.color, cursor: style.color },
  })
}

/** show has an element show a terminal, until what it returns is called. */
function show(
  box: HTMLElement,
  screen: XTerm,
  place: Place,
  how: { id: string | undefined; hint: string },
  heard: { leave: () => void; tell: (state: State, id: string | undefined) => void },
) {
  const over = new AbortController()
  const begin = async () => {
    await document.fonts.load(`13px ${font}`).catch(() => []) // or letters would be measured by another one
    if (over.signal.aborted) return
    const fit = new FitAddon()
    screen.loadAddon(fit)
    screen.open(box)
    screen.textarea?.setAttribute('aria-describedby', how.hint)
    fit.fit()
    const wire = new Wire(
      place,
      {
        size: () => ({ columns: screen.cols, rows: screen.rows }),
        clear: () => screen.write(Uint8Array.of(0x18, 0x1b, 0x63)), // CAN, RIS: after what comes before it
        draw: (bytes, drawn) => screen.write(bytes, drawn),
      },
      how.id,
      heard.tell,
      refusals(),
    )
    const encoder = new TextEncoder()
    screen.onData((text) => wire.type(encoder.encode(text)))
    screen.onBinary((text) => wire.type(Uint8Array.from(text, (c) => c.charCodeAt(0))))
    screen.onResize(() => wire.resize())
    screen.attachCustomKeyEventHandler((e) => pressed(e, screen, heard.leave))
    box.addEventListener('paste', (e) => pasted(e, screen), { capture: true, signal: over.signal })
    const size = new ResizeObserver(() => fit.fit())
    size.observe(box)
    over.signal.addEventListener('abort', () => {
      size.disconnect()
      wire.close()
    })
    screen.focus()
  }
  void begin()
  return () => {
    over.abort()
    screen.dispose()
  }
}

/** pressed says whether a key is the terminal's. What a screen reader is to hear, xterm leaves to the browser as well. */
function pressed(e: KeyboardEvent, screen: XTerm, leave: () => void) {
  if (e.type !== 'keydown') return true
  const copies = e.ctrlKey && e.shiftKey && (e.key.toLowerCase() === 'c' || e.code === 'KeyC')
  if (e.key === 'Tab' || /^F\d+$/.test(e.key)) e.preventDefault()
  if (e.shiftKey && e.key === 'Escape') leave()
  else if (!copies) return true
  else if (screen.hasSelection()) {
    navigator.clipboard.writeText(screen.getSelection()).catch((why: unknown) => console.warn('nothing is copied', why))
  }
  e.preventDefault()
  return false
}

/** pasted types what is pasted: as a text, in which nothing ends it. */
function pasted(e: ClipboardEvent, screen: XTerm) {
  e.preventDefault()
  e.stopPropagation()
  const text = e.clipboardData?.getData('text/plain') ?? ''
  if (text.length > longest) screen.write('\r\n[this is too long to be pasted: put it into a file]\r\n')
  else screen.paste(text.replaceAll('\x1b', '␛').replaceAll('\x9b', ''))
}
