import { afterEach, expect, test } from 'vitest'
import type { Message } from '../src/sse'
import { EventStream, type Channel, type Surroundings, type Told } from '../src/stream'
import type { FreshlineEvent } from '../src/types'

const event = (position: number): FreshlineEvent =>
  ({ id: String(position), type: 'run.succeeded', subject: 's', time: '', position, data: {} })
const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve))
async function settle(): Promise<void> {
  for (let turns = 0; turns < 8; turns += 1) await turn()
}

interface Connection {
  readonly after: number
  send(...positions: number[]): void
  end(): void
  fail(): void
}

/** A server and a browser with several tabs: events, one lock, one channel. Time does not pass by itself. */
class World {
  events: number[] = []
  reachable = true
  locks = true
  connections: Connection[] = []
  feeds = 0
  waits: number[] = []
  /** How many events one answer has at most. */
  page = 1000
  #waiting: (() => void)[] = []
  #listeners = new Map<number, (told: Told) => void>()
  #queue: { leading: () => Promise<void>; stop: AbortSignal }[] = []
  #led = false
  #tabs = 0
  /** Tabs that hear nothing, as when they are suspended. */
  deaf = new Set<number>()

  surroundings(): Surroundings {
    const tab = (this.#tabs += 1)
    return {
      open: (after, take, opened, stop) => this.#open(after, take, opened, stop),
      feed: async (after) => {
        this.feeds += 1
        if (!this.reachable) throw new Error('unreachable')
        const later = this.events.filter((one) => one > after)
        const events = later.slice(0, this.page).map(event)
        return { events, next: events.at(-1)?.position ?? after, more: later.length > events.length }
      },
      position: async () => {
        if (!this.reachable) throw new Error('unreachable')
        return this.events.at(-1) ?? 0
      },
      channel: () => this.#channel(tab),
      lead: (leading, stop) => {
        if (!this.locks) return false
        this.#queue.push({ leading, stop })
        void this.#next()
        return true
      },
      wait: (ms, stop) => new Promise((resolve) => {
        if (stop.aborted) return resolve()
        this.waits.push(ms)
        this.#waiting.push(resolve)
        stop.addEventListener('abort', () => resolve())
      }),
    }
  }

  /** Let all waits end. */
  async pass(): Promise<void> {
    for (const resolve of this.#waiting.splice(0)) resolve()
    await settle()
  }

  async #next(): Promise<void> {
    if (this.#led) return
    const next = this.#queue.shift()
    if (next === undefined) return
    if (next.stop.aborted) return this.#next()
    this.#led = true
    await turn()
    await next.leading()
    this.#led = false
    await this.#next()
  }

  #channel(tab: number): Channel {
    return {
      post: (told) => {
        for (const [other, listener] of this.#listeners) {
          if (other !== tab && !this.deaf.has(other)) setTimeout(() => listener(told))
        }
      },
      listen: (listener) => this.#listeners.set(tab, listener),
      close: () => this.#listeners.delete(tab),
    }
  }

  #open(after: number, take: (messages: Message[]) => void, opened: () => void, stop: AbortSignal): Promise<void> {
    if (!this.reachable) return Promise.reject(new Error('unreachable'))
    return new Promise((resolve, reject) => {
      const give = (positions: readonly number[]): void => {
        take(positions.map((one) => ({ id: String(one), type: 'x', data: JSON.stringify(event(one)) })))
      }
      this.connections.push({
        after,
        send: (...positions) => {
          this.events.push(...positions)
          give(positions)
        },
        end: resolve,
        fail: () => reject(new Error('lost')),
      })
      stop.addEventListener('abort', () => reject(new Error('stopped')))
      opened()
      const missed = this.events.filter((one) => one > after)
      if (missed.length > 0) give(missed)
    })
  }

  get connection(): Connection {
    return this.connections.at(-1)!
  }
}

const open: EventStream[] = []
async function tab(world: World, from: number | null = null): Promise<{ stream: EventStream; heard: number[] }> {
  const stream = new EventStream(world.surroundings())
  open.push(stream)
  const heard: number[] = []
  stream.subscribe((events) => heard.push(...events.map((one) => one.position!)))
  void stream.start(from)
  await settle()
  return { stream, heard }
}
afterEach(() => {
  for (const stream of open.splice(0)) stream.stop()
})

test('one tab leads, and all tabs hear every event once', async () => {
  const world = new World()
  world.events = [5]
  const tabs = [await tab(world), await tab(world), await tab(world)]
  expect(tabs.map((one) => one.stream.leading)).toEqual([true, false, false])
  expect(world.connections.map((one) => one.after)).toEqual([5])
  world.connection.send(6, 7)
  world.connection.send(8)
  await settle()
  for (const one of tabs) {
    expect(one.heard).toEqual([6, 7, 8])
    expect(one.stream.connection.value).toBe('live')
  }
})

test('a tab that is behind fills the gap before it delivers', async () => {
  const world = new World()
  const leader = await tab(world)
  const other = await tab(world)
  world.deaf.add(2)
  world.connection.send(1, 2)
  await settle()
  world.deaf.clear()
  world.connection.send(3)
  await settle()
  expect(leader.heard).toEqual([1, 2, 3])
  expect(other.heard).toEqual([1, 2, 3])
})

test('a gap of several pages is filled in order', async () => {
  const world = new World()
  world.page = 2
  await tab(world)
  const other = await tab(world)
  world.deaf.add(2)
  world.connection.send(1, 2, 3, 4, 5)
  await settle()
  world.deaf.clear()
  world.connection.send(6)
  await settle()
  expect(other.heard).toEqual([1, 2, 3, 4, 5, 6])
})

test('a new leader continues after the last event that it knows', async () => {
  const world = new World()
  const first = await tab(world)
  const second = await tab(world)
  world.connection.send(1)
  await settle()
  first.stream.stop()
  // While nobody leads, something happens.
  world.events.push(2, 3)
  await settle()
  expect(second.stream.leading).toBe(true)
  expect(world.connection.after).toBe(1)
  expect(second.heard).toEqual([1, 2, 3])
})

test('a view that was read after a known position misses nothing', async () => {
  const world = new World()
  world.events = [5]
  // The server said 5; two events come before the stream is open.
  world.events.push(6, 7)
  const { heard } = await tab(world, 5)
  expect(heard).toEqual([6, 7])
})

test('a lost connection is shown, comes back by itself and has no gap', async () => {
  const world = new World()
  const leader = await tab(world)
  const other = await tab(world)
  world.connection.send(1)
  await settle()
  world.reachable = false
  world.connection.fail()
  await settle()
  expect([leader.stream.connection.value, other.stream.connection.value]).toEqual(['lost', 'lost'])
  world.events.push(2)
  await world.pass()
  expect(leader.stream.connection.value).toBe('lost')
  world.reachable = true
  await world.pass()
  expect([leader.stream.connection.value, other.stream.connection.value]).toEqual(['live', 'live'])
  expect(leader.heard).toEqual([1, 2])
  expect(other.heard).toEqual([1, 2])
  expect(leader.stream.epoch.value).toBe(0)
})

test('retries slow down, to a limit', async () => {
  const world = new World()
  await tab(world)
  world.reachable = false
  world.connection.fail()
  for (let tries = 0; tries < 9; tries += 1) {
    await settle()
    await world.pass()
  }
  expect(world.waits.slice(0, 4)).toEqual([1000, 2000, 4000, 8000])
  expect(Math.max(...world.waits)).toBe(10_000)
})

test('a stream that ends at once is not opened in a hot loop', async () => {
  const world = new World()
  await tab(world)
  world.connection.end()
  await settle()
  expect(world.connections).toHaveLength(1)
  await world.pass()
  expect(world.connections).toHaveLength(2)
})

test('a restored database makes all views read again', async () => {
  const world = new World()
  world.events = [50]
  const leader = await tab(world)
  const other = await tab(world)
  world.reachable = false
  world.connection.fail()
  await settle()
  world.events = [10]
  world.reachable = true
  await world.pass()
  expect([leader.stream.epoch.value, other.stream.epoch.value]).toEqual([1, 1])
  world.connection.send(11)
  await settle()
  expect(leader.heard).toEqual([11])
  expect(other.heard).toEqual([11])
})

test('events that retention removed do not block the ones after them', async () => {
  const world = new World()
  await tab(world)
  const other = await tab(world)
  world.deaf.add(2)
  world.connection.send(1, 2)
  await settle()
  world.events = []
  world.deaf.clear()
  world.connection.send(3)
  await settle()
  world.events = []
  for (let tries = 0; tries < 5; tries += 1) await world.pass()
  expect(other.heard).toEqual([3])
})

test('a broken listener does not keep events from the others', async () => {
  const world = new World()
  const { stream, heard } = await tab(world)
  const before = console.error
  console.error = () => undefined
  try {
    stream.subscribe(() => {
      throw new Error('broken view')
    })
    const last: number[] = []
    stream.subscribe((events) => last.push(events.length))
    world.connection.send(1)
    await settle()
    expect(heard).toEqual([1])
    expect(last).toEqual([1])
  } finally {
    console.error = before
  }
})

test('without locks each tab asks for news', async () => {
  const world = new World()
  world.locks = false
  const { stream, heard } = await tab(world)
  expect(stream.connection.value).toBe('live')
  world.events.push(1, 2)
  await world.pass()
  world.reachable = false
  await world.pass()
  expect(stream.connection.value).toBe('lost')
  world.events.push(3)
  world.reachable = true
  await world.pass()
  await world.pass()
  expect(heard).toEqual([1, 2, 3])
  expect(world.connections).toHaveLength(0)
})
