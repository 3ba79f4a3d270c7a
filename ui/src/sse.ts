// Server-sent events, read from an answer's body. EventSource would have each type listened for by name.

export type Message = { id: string; type: string; data: string }

/** messages are those of a stream, as they come (WHATWG HTML, 9.2.6). Comments are left out. */
export async function* messages(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<Message> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  let message: Message = { id: '', type: 'message', data: '' }
  for (;;) {
    const { value, done } = await reader.read()
    if (done) return
    const lines = (rest + value).split(/\r\n|\n|\r(?!$)/)
    rest = lines.pop() ?? ''
    for (const line of lines) {
      if (line === '') {
        if (message.data !== '') yield { ...message, data: message.data.slice(0, -1) }
        message = { id: message.id, type: 'message', data: '' }
        continue
      }
      const [, field = '', text = ''] = /^([^:]*):? ?(.*)$/.exec(line) ?? []
      if (field === 'data') message.data += text + '\n'
      if (field === 'event') message.type = text
      if (field === 'id') message.id = text
    }
  }
}
