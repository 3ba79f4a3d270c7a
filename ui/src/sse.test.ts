import { expect, test } from 'vitest'

import { messages } from './sse'

/** read is what comes of a stream that arrives in these parts. */
async function read(...parts: string[]) {
  const stream = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(c) {
      for (const part of parts) c.enqueue(new TextEncoder().encode(part))
      c.close()
    },
  })
  const all = []
  for await (const m of messages(stream)) all.push(m)
  return all
}

test('messages are put together from parts', async () => {
  expect(await read(': hello\n\nid: 7\nevent: node.phase\nda', 'ta: {"a":1}\n', '\nid: 8\ndata: x\ndata: y\n\n')).toEqual([
    { id: '7', type: 'node.phase', data: '{"a":1}' },
    { id: '8', type: 'message', data: 'x\ny' },
  ])
})

test('a message without its end is none', async () => {
  expect(await read('id: 7\ndata: x\n')).toEqual([])
})
