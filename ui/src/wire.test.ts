import { afterEach, beforeEach, expect, test, vi } from 'vitest'

import { address, type Refusal, type Socket, type State, Wire } from './wire'

type Fake = Socket & { path: string; sent: (string | Uint8Array)[] }

let sockets: Fake[]
let states: State[]
let shown: string
let refused: Refusal

beforeEach(() => {
  vi.useFakeTimers()
  sockets = []
  states = []
  shown = ''
  refused = undefined
})
afterEach(() => vi.useRealTimers())

const last = () => sockets.at(-1) as Fake
const socketOf = () => last() as unknown as WebSocket
const opens = () => {
  Object.assign(last(), { readyState: 1 })
  last().onopen?.call(socketOf(), new Event('open'))
}
const says = (data: object | ArrayBuffer) =>
  last().onmessage?.call(socketOf(), { data: data instanceof ArrayBuffer ? data : JSON.stringify(data) } as MessageEvent)
const closes = (code: number) => last().onclose?.call(socketOf(), { code } as CloseEvent)
const bytes = (n: number) => new Uint8Array(n).fill(65).buffer
const is = () => states.at(-1)?.is

function wire(id?: string) {
  return new Wire(
    { cluster: 'aero/cfd', node: undefined },
    {
      size: () => ({ columns: 80, rows: 24 }),
      clear: () => (shown = ''),
      draw: (part, drawn) => {
        shown += new TextDecoder().decode(part)
        drawn()
      },
    },
    id,
    (state) => states.push(state),
    () => Promise.resolve(refused),
    (path) => {
      const sent: (string | Uint8Array)[] = []
      const still = { readyState: 0, binaryType: 'blob', onopen: null, onmessage: null, onclose: null } as const
      sockets.push({
        ...still,
        path,
        sent,
        send: (text) => sent.push(text as string | Uint8Array),
        close: () => undefined,
      })
      return last()
    },
  )
}

test('an address says where, which, and how large', () => {
  expect(address({ cluster: 'aero/cfd', node: 'n2' }, { columns: 1200, rows: 24 }, { terminal: 'T1', from: 0 })).toBe(
    '/v1/clusters/aero%2Fcfd/terminal?columns=1000&rows=24&node=n2&terminal=T1',
  )
})

test('what was cut goes on where it was', async () => {
  wire()
  expect(last().path).not.toContain('terminal=')
  opens()
  says({ terminal: 'T1' })
  says(bytes(3))
  expect(is()).toBe('open')
  closes(1006)
  expect(is()).toBe('cut')
  await vi.advanceTimersByTimeAsync(1000)
  expect(last().path).toContain('terminal=T1')
  expect(last().path).toContain('from=3')
  opens()
  says({ terminal: 'T1', from: 3 })
  says(bytes(1))
  expect(shown).toBe('AAAA')
})

test('what comes from another place than it was comes on an empty screen, and what it asks is not answered again', () => {
  const w = wire('T1')
  opens()
  says({ terminal: 'T1', from: 100, kept: 5 })
  w.type(new Uint8Array(3))
  says(bytes(5))
  expect(shown).toBe('AAAAA')
  expect(last().sent.filter((part) => typeof part !== 'string')).toEqual([])
  w.type(new Uint8Array(3))
  expect(last().sent.filter((part) => typeof part !== 'string')).toEqual([new Uint8Array(3)])
})

test('it says how much it has drawn, and types in pieces', () => {
  const w = wire()
  opens()
  says({ terminal: 'T1' })
  for (let i = 0; i < 3; i++) says(bytes(20 << 10))
  expect(last().sent).toEqual(['{"resize":{"columns":80,"rows":24}}', '{"drawn":40960}'])
  w.type(new Uint8Array(40 << 10))
  expect(
    last()
      .sent.slice(2)
      .map((part) => part.length),
  ).toEqual([16 << 10, 16 << 10, 8 << 10])
})

test('a socket that says nothing is given up, and one that speaks is not', async () => {
  wire()
  opens()
  says({ terminal: 'T1' })
  for (let i = 0; i < 5; i++) {
    await vi.advanceTimersByTimeAsync(20_000)
    says({})
  }
  expect(sockets.length).toBe(1)
  await vi.advanceTimersByTimeAsync(46_500)
  expect(sockets.length).toBe(2)
})

test('what has ended, or is shown elsewhere, is not asked for again', async () => {
  for (const end of [() => says({ ended: 'it ended with exit code 3' }), () => closes(4001)]) {
    wire('T1')
    opens()
    end()
    const before = sockets.length
    await vi.advanceTimersByTimeAsync(60_000)
    expect(sockets.length).toBe(before)
  }
  expect(states.filter((s) => s.is !== 'opening')).toEqual([
    { is: 'ended', why: 'it ended with exit code 3' },
    { is: 'elsewhere' },
  ])
})

test('a refusal is told; one that may pass is tried again, less and less often', async () => {
  refused = { why: 'too many', over: false }
  wire()
  closes(1006)
  await vi.advanceTimersByTimeAsync(10)
  expect(states.at(-1)).toMatchObject({ is: 'cut', why: 'too many' })
  for (const seconds of [1, 2, 5, 10, 10]) {
    const before = sockets.length
    await vi.advanceTimersByTimeAsync(seconds * 1000 - 20)
    expect(sockets.length).toBe(before)
    await vi.advanceTimersByTimeAsync(20)
    expect(sockets.length).toBe(before + 1)
    closes(1006)
  }
  refused = { why: 'the cluster admits others', over: true }
  closes(1006)
  await vi.advanceTimersByTimeAsync(11_000)
  closes(1006)
  await vi.advanceTimersByTimeAsync(1)
  const before = sockets.length
  await vi.advanceTimersByTimeAsync(60_000)
  expect(sockets.length).toBe(before)
  expect(states.at(-1)).toEqual({ is: 'ended', why: 'the cluster admits others' })
})

test('what is told of a terminal that was left changes nothing', async () => {
  refused = { why: 'too late', over: true }
  const w = wire()
  closes(1006)
  w.close()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(is()).toBe('cut')
  expect(sockets.length).toBe(1)
})
