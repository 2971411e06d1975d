import { signal } from '@preact/signals'
import { address, get, note, problem } from './api'
import { pause, readMessages, type Message } from './sse'
import type { About, FreshlineEvent, Page } from './types'

/**
 * One event stream for all tabs of the origin.
 *
 * A browser opens six connections per host, so eight tabs with a stream each would block the page. The tab that holds
 * a web lock is the leader: it reads the stream and repeats it on a broadcast channel. When it closes, the browser
 * gives the lock to another tab, which continues after the last event that it knows.
 *
 * No tab misses an event. Every batch names the position after which it starts. A tab that is behind that position
 * (it was opened a moment ago, or a leader ended in the middle) reads what lies between from `/feed` first. Positions
 * follow the order of commits, so nothing can appear later at or below a position that was delivered.
 *
 * Where the browser has no locks (plain http on another host than this machine) each tab asks `/feed` for news every
 * two seconds, which holds no connection.
 */
export type Connection = 'connecting' | 'live' | 'lost'

/** What a leader tells the other tabs. */
export type Told =
  | { readonly kind: 'batch'; readonly after: number; readonly events: readonly FreshlineEvent[] }
  | { readonly kind: 'state'; readonly connection: Connection; readonly position: number }
  | { readonly kind: 'hello' }
  | { readonly kind: 'reset' }

export interface Channel {
  post(told: Told): void
  listen(listener: (told: Told) => void): void
  close(): void
}

/** What the stream needs from its surroundings; tests replace it. */
export interface Surroundings {
  /** Open the stream after a position, take the messages of each piece. Resolves when the server ends it. */
  open(after: number, take: (messages: Message[]) => void, opened: () => void, stop: AbortSignal): Promise<void>
  /** Return the events after a position, oldest first. */
  feed(after: number): Promise<{ events: readonly FreshlineEvent[]; next: number; more: boolean }>
  /** Return the position of the newest event. */
  position(): Promise<number>
  channel(): Channel | null
  /** Wait until this tab leads, and lead until `leading` resolves. False: there are no locks here. */
  lead(leading: () => Promise<void>, stop: AbortSignal): boolean
  wait(ms: number, stop: AbortSignal): Promise<void>
}

export type Listener = (events: readonly FreshlineEvent[]) => void

const POLL_MS = 2000
const SLOWEST_RETRY_MS = 10_000
const SHORTEST_STREAM_MS = 1000

export class EventStream {
  /** The state that the header shows. */
  readonly connection = signal<Connection>('connecting')
  /** Counts up when views must be read again as a whole: the server's history is another one than before. */
  readonly epoch = signal(0)

  #position: number | null = null
  #leading = false
  #listeners = new Set<Listener>()
  #channel: Channel | null = null
  #ended = new AbortController()
  /** Batches are taken one after the other: filling a gap takes a request. */
  #queue: Promise<void> = Promise.resolve()

  constructor(readonly surroundings: Surroundings) {}

  get position(): number | null {
    return this.#position
  }

  get leading(): boolean {
    return this.#leading
  }

  /**
   * Call `listener` with every event from now on. A view subscribes first and reads its data then: each event is in the
   * data or comes afterwards. Return a function that ends it.
   */
  subscribe(listener: Listener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /**
   * Start: find the newest position, then follow as the leader or as another tab. Who knows a position already passes
   * it: views that are read after it miss nothing.
   */
  async start(from: number | null = null): Promise<void> {
    const stop = this.#ended.signal
    this.#position = from
    for (let tries = 0; this.#position === null && !stop.aborted; tries += 1) {
      try {
        this.#position = await this.surroundings.position()
      } catch {
        this.#show('lost')
        await this.surroundings.wait(backoff(tries), stop)
      }
    }
    if (stop.aborted) return
    this.#channel = this.surroundings.channel()
    this.#channel?.listen((told) => this.#hear(told))
    this.#channel?.post({ kind: 'hello' })
    if (this.#channel === null || !this.surroundings.lead(() => this.#lead(), stop)) await this.#poll()
  }

  stop(): void {
    this.#ended.abort()
    this.#channel?.close()
    this.#listeners.clear()
  }

  #hear(told: Told): void {
    switch (told.kind) {
      case 'batch':
        this.#take(told.after, told.events)
        break
      case 'state':
        this.#show(told.connection)
        // A leader that is ahead has delivered events that this tab did not hear.
        this.#take(told.position, [])
        break
      case 'hello':
        if (this.#leading) this.#tell()
        break
      case 'reset':
        void this.#reset()
    }
  }

  /** Deliver a batch that starts after a position, with what this tab lacks before it. */
  #take(after: number, events: readonly FreshlineEvent[]): void {
    this.#queue = this.#queue.then(async () => {
      let empty = 0
      while (after > (this.#position ?? 0) && !this.#ended.signal.aborted) {
        try {
          const found = await this.surroundings.feed(this.#position ?? 0)
          this.#deliver(found.events)
          this.#position = Math.max(this.#position ?? 0, found.next)
          if (found.more || after <= this.#position) continue
          // Another API process with an older view of the database, or events that retention has removed.
          empty += 1
          if (empty > 2) this.#position = after
        } catch {
          empty = 0
        }
        if (after > (this.#position ?? 0)) await this.surroundings.wait(backoff(1), this.#ended.signal)
      }
      this.#deliver(events)
    })
  }

  #deliver(events: readonly FreshlineEvent[]): void {
    const known = this.#position ?? 0
    const fresh = events.filter((one) => (one.position ?? 0) > known)
    const last = fresh.at(-1)
    if (last === undefined) return
    this.#position = last.position ?? known
    for (const listener of [...this.#listeners]) {
      try {
        listener(fresh)
      } catch (error) {
        // One broken view must not keep events from the others.
        console.error(error)
      }
    }
  }

  async #lead(): Promise<void> {
    const stop = this.#ended.signal
    // What the last leader told comes first: the stream continues after it.
    await this.#queue
    this.#leading = true
    let failures = 0
    while (!stop.aborted) {
      if (failures > 0) await this.#checkHistory()
      let last = this.#position ?? 0
      const began = Date.now()
      try {
        await this.surroundings.open(
          last,
          (messages) => {
            // The server sends the events of one moment as one piece: a hundred a second are a few batches.
            const events = messages.map((one) => JSON.parse(one.data) as FreshlineEvent)
            if (events.length === 0) return
            this.#channel?.post({ kind: 'batch', after: last, events })
            this.#take(last, events)
            last = events.at(-1)?.position ?? last
          },
          () => {
            failures = 0
            this.#show('live')
            this.#tell()
          },
          stop,
        )
        // The server ends a stream every few minutes; that is no failure. A proxy may end each one at once.
        await this.#queue
        if (Date.now() - began < SHORTEST_STREAM_MS) await this.surroundings.wait(POLL_MS, stop)
        continue
      } catch {
        await this.#queue
      }
      failures += 1
      this.#show('lost')
      this.#tell()
      await this.surroundings.wait(backoff(failures), stop)
    }
    this.#leading = false
  }

  /** After a failure: a server with an older history (a restored database) needs a new start of all views. */
  async #checkHistory(): Promise<void> {
    try {
      const newest = await this.surroundings.position()
      if (newest >= (this.#position ?? 0)) return
      this.#channel?.post({ kind: 'reset' })
      this.#position = newest
      this.epoch.value += 1
    } catch {
      // Opening the stream says the same.
    }
  }

  async #reset(): Promise<void> {
    try {
      this.#position = await this.surroundings.position()
    } catch {
      this.#position = 0
    }
    this.epoch.value += 1
  }

  async #poll(): Promise<void> {
    const stop = this.#ended.signal
    let failures = 0
    while (!stop.aborted) {
      try {
        const found = await this.surroundings.feed(this.#position ?? 0)
        failures = 0
        this.#show('live')
        this.#deliver(found.events)
        this.#position = Math.max(this.#position ?? 0, found.next)
        if (found.more) continue
        await this.surroundings.wait(POLL_MS, stop)
      } catch {
        failures += 1
        this.#show('lost')
        await this.surroundings.wait(backoff(failures), stop)
        await this.#checkHistory()
      }
    }
  }

  #tell(): void {
    this.#channel?.post({ kind: 'state', connection: this.connection.value, position: this.#position ?? 0 })
  }

  #show(connection: Connection): void {
    this.connection.value = connection
  }
}

const backoff = (failures: number): number => Math.min(SLOWEST_RETRY_MS, 500 * 2 ** Math.min(failures, 6))

/** Without a sign of life for this long the connection is dead; the server says something every 15 s. */
const SILENCE_MS = 40_000

/** The surroundings in a browser. */
export function browser(): Surroundings {
  const name = `freshline-events ${new URL('.', document.baseURI).href}`
  return {
    async open(after, take, opened, stop) {
      const attempt = new AbortController()
      const give = (): void => attempt.abort()
      stop.addEventListener('abort', give)
      let silence = setTimeout(give, SILENCE_MS)
      try {
        const headers = { Accept: 'text/event-stream', 'Last-Event-ID': String(after) }
        const response = await fetch(address('events'), { headers, signal: attempt.signal, cache: 'no-store' })
        note(response)
        if (!response.ok || response.body === null) throw await problem(response, 'events')
        opened()
        for await (const messages of readMessages(response.body)) {
          clearTimeout(silence)
          silence = setTimeout(give, SILENCE_MS)
          take(messages)
        }
      } finally {
        clearTimeout(silence)
        stop.removeEventListener('abort', give)
      }
    },
    async feed(after) {
      const found = await get<Page<FreshlineEvent>>('feed', { position: after })
      const last = found.items.at(-1)?.position ?? after
      const next = found.next === null ? last : Math.max(last, Number(found.next))
      return { events: found.items, next, more: found.items.length >= 1000 }
    },
    async position() {
      return (await get<About>('about')).position
    },
    channel() {
      if (!('BroadcastChannel' in globalThis)) return null
      const channel = new BroadcastChannel(name)
      return {
        post: (told) => channel.postMessage(told),
        listen: (listener) => {
          channel.onmessage = (message: MessageEvent<Told>) => listener(message.data)
        },
        close: () => channel.close(),
      }
    },
    lead(leading, stop) {
      // Browsers have locks in secure contexts only: https, or a loopback address.
      if (!('locks' in navigator) || navigator.locks === undefined) return false
      navigator.locks.request(name, { signal: stop }, leading).catch(() => undefined)
      return true
    },
    wait: (ms, stop) => pause(ms, stop),
  }
}

/** The stream of this tab. It starts when the page knows that it may read. */
let current: EventStream | null = null

export function stream(): EventStream {
  current ??= new EventStream(browser())
  return current
}

/** Start the stream of this tab, once, after the position that the server named before any view was read. */
let started = false
export function startStream(position: number): void {
  if (started) return
  started = true
  void stream().start(position)
}
