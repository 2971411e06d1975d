import { expect, test } from 'vitest'
import { pause, readMessages, splitter, type Message } from '../src/sse'

const TEXT = [
  ': hello', '', 'id: 41', 'event: run.succeeded', 'data: {"a":1}', '', 'data: two', 'data: lines', '',
  'id:42', 'data:  one space stays', 'retry: 100', 'unknown', '', ': keep-alive', '', 'event: empty', '', '',
].join('\n')
const MESSAGES: Message[] = [
  { id: '41', type: 'run.succeeded', data: '{"a":1}' },
  { id: '', type: 'message', data: 'two\nlines' },
  { id: '42', type: 'message', data: ' one space stays' },
]

/** Line ends of two characters may be cut between them too. */
test.each([['LF', TEXT], ['CRLF', TEXT.replaceAll('\n', '\r\n')]])('messages are whole at every cut: %s', (_, text) => {
  for (let cut = 0; cut <= text.length; cut += 1) {
    for (const second of [cut, Math.min(text.length, cut + 1), Math.min(text.length, cut + 7)]) {
      const split = splitter()
      const found = [text.slice(0, cut), text.slice(cut, second), text.slice(second)].flatMap((piece) => split(piece))
      expect(found, `cut at ${cut} and ${second}`).toEqual(MESSAGES)
    }
  }
})

test('a message without its end is not given', () => {
  const split = splitter()
  expect(split('data: half')).toEqual([])
  expect(split('\n')).toEqual([])
  expect(split('\n')).toHaveLength(1)
})

test('characters of several bytes are whole at every cut', async () => {
  const bytes = new TextEncoder().encode('data: ünï 😀\n\n')
  for (let cut = 1; cut < bytes.length; cut += 1) {
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(bytes.slice(0, cut))
        controller.enqueue(bytes.slice(cut))
        controller.close()
      },
    })
    const found: Message[] = []
    for await (const messages of readMessages(body)) found.push(...messages)
    expect(found.map((one) => one.data), `cut at ${cut}`).toEqual(['ünï 😀'])
  }
})

test('a pause ends when it is stopped', async () => {
  const stop = new AbortController()
  const waiting = pause(60_000, stop.signal)
  stop.abort()
  await waiting
  await pause(60_000, stop.signal)
})
