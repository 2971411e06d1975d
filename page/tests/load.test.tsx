import { render } from 'preact'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Problem } from '../src/api'
import { about, ofType, useLoad, type Loaded, type Options } from '../src/load'
import { stream } from '../src/stream'
import type { FreshlineEvent } from '../src/types'

const event = (type: string, subject = 's', data = {}): FreshlineEvent =>
  ({ id: '1', type, subject, time: '', position: 1, data })

let listeners: ((events: FreshlineEvent[]) => void)[] = []
let root: HTMLElement
let seen: Loaded<string>

beforeEach(() => {
  vi.useFakeTimers()
  listeners = []
  vi.spyOn(stream(), 'subscribe').mockImplementation((listener) => {
    listeners.push(listener as (events: FreshlineEvent[]) => void)
    return () => {
      listeners = listeners.filter((one) => one !== listener)
    }
  })
  root = document.createElement('div')
  document.body.append(root)
})
afterEach(() => {
  render(null, root)
  root.remove()
  vi.useRealTimers()
  vi.restoreAllMocks()
})

function View({ name, read, options }: { name: string; read: (stop: AbortSignal) => Promise<string>; options?: Options }) {
  seen = useLoad(name, read, options)
  return <p>{seen.data}</p>
}
const tell = (one: FreshlineEvent): void => listeners.forEach((listener) => listener([one]))
const show = async (name: string, read: (stop: AbortSignal) => Promise<string>, options?: Options): Promise<void> => {
  render(<View name={name} read={read} {...(options === undefined ? {} : { options })} />, root)
  await vi.advanceTimersByTimeAsync(20)
}

test('many events are one read, and only those that concern the view', async () => {
  let reads = 0
  await show('a', async () => `read ${(reads += 1)}`, { events: ofType('run.') })
  expect(root.textContent).toBe('read 1')
  for (let n = 0; n < 100; n += 1) tell(event('run.started'))
  tell(event('asset.expired'))
  await vi.advanceTimersByTimeAsync(1500)
  expect(reads).toBe(2)
  tell(event('asset.expired'))
  await vi.advanceTimersByTimeAsync(3000)
  expect(reads).toBe(2)
})

test('an event during a read makes another one: it may not be in the answer', async () => {
  const answers: ((text: string) => void)[] = []
  await show('a', () => new Promise((resolve) => answers.push(resolve)), { events: () => true })
  tell(event('run.started'))
  answers[0]!('old')
  await vi.advanceTimersByTimeAsync(2000)
  expect(answers).toHaveLength(2)
  answers[1]!('new')
  await vi.advanceTimersByTimeAsync(20)
  expect(root.textContent).toBe('new')
})

test('an answer for another key is not shown', async () => {
  const answers = new Map<string, (text: string) => void>()
  const reading = (name: string) => () => new Promise<string>((resolve) => answers.set(name, resolve))
  await show('a', reading('a'))
  await show('b', reading('b'))
  answers.get('b')!('of b')
  answers.get('a')!('of a')
  await vi.advanceTimersByTimeAsync(20)
  expect(root.textContent).toBe('of b')
})

test('after an error the old data stays, and the next read replaces both', async () => {
  let wrong = false
  await show('a', async () => {
    if (wrong) throw new Error('away')
    return 'data'
  }, { events: () => true })
  wrong = true
  tell(event('x'))
  await vi.advanceTimersByTimeAsync(1500)
  expect(seen.data).toBe('data')
  expect(seen.error).toBeInstanceOf(Error)
  wrong = false
  seen.reload()
  await vi.advanceTimersByTimeAsync(1500)
  expect(seen.error).toBeNull()
})

test('a tab that nobody sees reads when it is seen', async () => {
  let reads = 0
  await show('a', async () => `${(reads += 1)}`, { events: () => true })
  const state = vi.spyOn(document, 'visibilityState', 'get').mockReturnValue('hidden')
  tell(event('x'))
  await vi.advanceTimersByTimeAsync(10_000)
  expect(reads).toBe(1)
  state.mockReturnValue('visible')
  document.dispatchEvent(new Event('visibilitychange'))
  await vi.advanceTimersByTimeAsync(1500)
  expect(reads).toBe(2)
})

test('a read that did not reach the server is tried again, others are not', async () => {
  let reads = 0
  const failing = (status: number) => async (): Promise<string> => {
    reads += 1
    throw new Problem(status, '', '', '')
  }
  await show('a', failing(0))
  await vi.advanceTimersByTimeAsync(7000)
  expect(reads).toBe(2)
  await show('b', failing(404))
  reads = 0
  await vi.advanceTimersByTimeAsync(20_000)
  expect(reads).toBe(0)
})

test('nothing is read after the view is gone', async () => {
  let reads = 0
  await show('a', async () => `${(reads += 1)}`, { events: () => true, everyMs: 1000 })
  render(null, root)
  await vi.advanceTimersByTimeAsync(10_000)
  expect(reads).toBe(1)
  expect(listeners).toHaveLength(0)
})

test('events about some names', () => {
  const wanted = about('a', null, 'w')
  expect(wanted(event('x', 'a'))).toBe(true)
  expect(wanted(event('x', 'b', { workflowSlug: 'w' }))).toBe(true)
  expect(wanted(event('x', 'b', { assetId: 'c' }))).toBe(false)
  expect(about(null)(event('x', 'null'))).toBe(false)
})
