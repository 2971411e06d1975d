/** Server-sent events, read from a response: unlike `EventSource`, with headers and with messages of any type. */
export interface Message {
  readonly id: string
  readonly type: string
  readonly data: string
}

/** Yield the messages of each piece that arrives; none for a comment, which says only that the server is there. */
export async function* readMessages(body: ReadableStream<Uint8Array>): AsyncGenerator<Message[]> {
  const reader = body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader()
  const split = splitter()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      yield split(value)
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

/** Return a function that takes pieces of text and returns the messages that are complete with them. */
export function splitter(): (piece: string) => Message[] {
  let rest = ''
  return (piece) => {
    const blocks = (rest + piece).split(/\r?\n\r?\n/)
    rest = blocks.pop() ?? ''
    return blocks.map(message).filter((one) => one.data !== '')
  }
}

function message(block: string): Message {
  let id = ''
  let type = 'message'
  const data: string[] = []
  for (const line of block.split(/\r?\n/)) {
    const cut = line.indexOf(':')
    if (cut === 0) continue
    const name = cut < 0 ? line : line.slice(0, cut)
    const value = cut < 0 ? '' : line.slice(cut + 1).replace(/^ /, '')
    if (name === 'id') id = value
    else if (name === 'event') type = value
    else if (name === 'data') data.push(value)
  }
  return { id, type, data: data.join('\n') }
}

/** Wait for a time, or until `stop`. */
export function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (stop.aborted) return resolve()
    const end = (): void => {
      clearTimeout(timer)
      stop.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    stop.addEventListener('abort', end)
  })
}
