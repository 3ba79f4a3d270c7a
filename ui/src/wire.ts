// A terminal on a cluster, over a WebSocket. When that is cut, it comes again and goes on where it was.
import { clockSkew } from './api'

/** Place is where a terminal goes. */
export type Place = { cluster: string; node: string | undefined }

type Size = { columns: number; rows: number }

/** Screen is what shows a terminal. draw calls drawn once it has. */
export type Screen = {
  size: () => Size
  clear: () => void
  draw: (bytes: Uint8Array, drawn: () => void) => void
}

/** State is how it is with a terminal. again is when a new try begins, by the controller's clock. */
export type State =
  | { is: 'opening' | 'open' | 'elsewhere' }
  | { is: 'cut'; again: number; why?: string }
  | { is: 'ended'; why: string }

/** address is the path of a terminal in the API, in sizes that it takes. */
export function address(place: Place, size: Size, of: { terminal?: string | undefined; from?: number } = {}) {
  const query = new URLSearchParams({
    columns: String(Math.min(Math.max(size.columns, 1), 1000)),
    rows: String(Math.min(Math.max(size.rows, 1), 500)),
  })
  for (const [key, value] of Object.entries({ node: place.node, ...of })) if (value) query.set(key, String(value))
  return `/v1/clusters/${encodeURIComponent(place.cluster)}/terminal?${query}`
}

const protocol = 'muster.terminal.v1'
const elsewhere = 4001 // the close code
const most = 16 << 10 // bytes of a message
const step = 32 << 10 // bytes that are drawn between two words of it
const ample = 4 << 20 // bytes that a hidden page keeps, to be drawn when it is shown
const silence = 45_000 // milliseconds after which a socket is dead that has said nothing: it speaks each 20 seconds
const lasted = 10_000 // milliseconds after which a socket was a good one
const pauses = [1, 2, 5, 10] // seconds before the next try

/** Socket is what is used of a WebSocket. */
export type Socket = Pick<WebSocket, 'send' | 'close' | 'readyState' | 'binaryType' | 'onopen' | 'onmessage' | 'onclose'>

/** Refusal is why no terminal opens: over, if it is no use to try again. */
export type Refusal = { why: string; over: boolean } | undefined

export class Wire {
  #socket: Socket | undefined
  #began = 0
  #tries = 0
  #at = 0 // bytes of all that the terminal has shown that have come
  #old = 0 // bytes that come and were shown before: what they ask for is not answered again
  #timer: ReturnType<typeof setTimeout> | undefined // of the next try
  #watch: ReturnType<typeof setTimeout> | undefined

  /** id is of the terminal to show again; without one, the first that comes is a new one. */
  constructor(
    readonly place: Place,
    readonly screen: Screen,
    private id: string | undefined,
    readonly tell: (state: State, id: string | undefined) => void,
    readonly refusal: (path: string) => Promise<Refusal>,
    readonly make: (path: string) => Socket = (path) => new WebSocket(location.origin.replace(/^http/, 'ws') + path, protocol),
  ) {
    this.#open()
  }

  /** type sends what was typed, or what the screen answers. */
  type(bytes: Uint8Array<ArrayBuffer>) {
    if (this.#old > 0) return
    for (let at = 0; at < bytes.length; at += most) this.#say(bytes.subarray(at, at + most))
  }

  /** resize says how large the screen is now. */
  resize() {
    this.#say(JSON.stringify({ resize: this.screen.size() }))
  }

  /** close leaves the terminal, which goes on for some minutes. */
  close() {
    this.#wait(undefined)
    this.#drop()
  }

  #wait(timer: ReturnType<typeof setTimeout> | undefined) {
    clearTimeout(this.#timer)
    this.#timer = timer
  }

  #say(what: string | Uint8Array<ArrayBuffer>) {
    if (this.#socket?.readyState === 1) this.#socket.send(what)
  }

  /** drop lets go of the socket: nothing is heard of it any more. */
  #drop() {
    clearTimeout(this.#watch)
    const socket = this.#socket
    this.#socket = undefined
    if (!socket) return
    socket.onopen = socket.onmessage = socket.onclose = null
    socket.close()
  }

  #open() {
    this.#told({ is: 'opening' })
    const path = address(this.place, this.screen.size(), { terminal: this.id, from: this.#at })
    const socket = this.make(path)
    this.#socket = socket
    this.#began = 0
    socket.binaryType = 'arraybuffer'
    let got = 0
    let drawn = 0
    let said = 0
    const say = () => {
      if (this.#socket !== socket) return
      // a page that is hidden draws seldom: it takes some in advance
      const far = globalThis.document?.hidden && got - drawn < ample ? got : drawn
      if (far - said < step) return
      said = far
      this.#say(JSON.stringify({ drawn: far }))
    }
    this.#wait(undefined)
    this.#listen(path)
    socket.onopen = () => {
      this.#began = Date.now()
      this.resize() // it may have changed meanwhile
    }
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      this.#listen(path)
      if (typeof data === 'string') {
        this.#hear(JSON.parse(data) as Told)
        return
      }
      this.#at += data.byteLength
      got += data.byteLength
      say()
      this.screen.draw(new Uint8Array(data), () => {
        drawn += data.byteLength
        if (this.#socket === socket) this.#old = Math.max(0, this.#old - data.byteLength)
        say()
      })
    }
    socket.onclose = ({ code }) => {
      if (code === elsewhere) this.#end({ is: 'elsewhere' })
      else void this.#cut(path)
    }
  }

  #hear({ terminal, from = 0, kept = 0, ended }: Told) {
    if (ended !== undefined) this.#end({ is: 'ended', why: ended })
    if (!terminal) return
    this.id = terminal
    if (from !== this.#at) this.screen.clear()
    this.#at = from
    this.#old = kept
    this.#told({ is: 'open' })
  }

  /** listen has the socket count as cut when it says nothing for long: it may be so, and the browser does not know. */
  #listen(path: string) {
    clearTimeout(this.#watch)
    this.#watch = setTimeout(() => void this.#cut(path), silence)
  }

  /** A socket that has never opened says not why: the API is asked. */
  async #cut(path: string) {
    const began = this.#began
    this.#drop()
    if (began && Date.now() - began > lasted) this.#tries = 0
    const pause = (pauses[this.#tries++] ?? 10) * 1000
    const again = Date.now() + clockSkew() + pause
    this.#told({ is: 'cut', again })
    const timer = setTimeout(() => this.#open(), pause)
    this.#wait(timer)
    if (began) return
    const refused = await this.refusal(path)
    if (!refused || this.#timer !== timer) return // it is told in vain
    if (refused.over) this.#end({ is: 'ended', why: refused.why })
    else this.#told({ is: 'cut', again, why: refused.why })
  }

  #end(state: State) {
    this.close()
    this.#told(state)
  }

  #told(state: State) {
    this.tell(state, this.id)
  }
}

/** Told is what the server says as text: nothing, or how a terminal begins, or why it has ended. */
type Told = { terminal?: string; from?: number; kept?: number; ended?: string }
