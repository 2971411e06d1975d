import { signal, type Signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { get, segment } from '../api'
import type { LogLine, Page } from '../types'
import { append, jump, MOST_LINES, NO_LINES, prepend, type LogWindow } from './log-window'

const PAGE = 1000
const PACE_MS = 1000
/** Lines above one that a link names. */
const ABOVE = 200

/** Reads the log of a run piece by piece, and follows it while the run is active. */
export class LogSource {
  readonly window: Signal<LogWindow> = signal(NO_LINES)
  readonly error = signal<unknown>(null)
  readonly loading = signal(true)
  readonly busy = signal(false)
  /** Whether the newest lines are wanted: then old ones make room. Otherwise what is read stays where it is. */
  following = true

  #ended = new AbortController()
  #timer: ReturnType<typeof setTimeout> | undefined
  /** Reads one after the other, so that no piece is added twice. */
  #queue: Promise<void> = Promise.resolve()

  constructor(readonly runId: string, readonly line: number | null) {}

  /** Read the first piece: around the wanted line, else the end. */
  open(): void {
    this.#read(async () => {
      if (this.line === null) {
        this.window.value = jump(NO_LINES, await this.#page({ tail: PAGE }))
        return
      }
      const after = Math.max(-1, this.line - ABOVE)
      const found = await this.#page({ after, limit: PAGE })
      this.window.value = { ...append({ ...NO_LINES, start: after < 1 }, found), end: found.length < PAGE }
    })
  }

  /** Read what was written since the last line. */
  more(): void {
    this.#read(async () => {
      const { lines, end } = this.window.value
      if (!end && lines.length > 0) return
      if (!this.following && lines.length >= MOST_LINES) {
        this.window.value = { ...this.window.value, end: false }
        return
      }
      const found = await this.#page({ after: lines.at(-1)?.line ?? -1, limit: PAGE })
      // A run that writes faster than this reads: the end is what somebody who follows wants to see.
      if (found.length >= PAGE && this.following) await this.#newest()
      else this.window.value = { ...append(this.window.value, found), end: found.length < PAGE }
    })
  }

  earlier(): void {
    this.#read(async () => {
      const first = this.window.value.lines[0]?.line
      if (first === undefined) return
      const found = await this.#page({ after: Math.max(-1, first - PAGE - 1), limit: PAGE })
      this.window.value = prepend(this.window.value, found)
    })
  }

  later(): void {
    this.#read(async () => {
      const found = await this.#page({ after: this.window.value.lines.at(-1)?.line ?? -1, limit: PAGE })
      this.window.value = { ...append(this.window.value, found), end: found.length < PAGE }
    })
  }

  newest(): void {
    this.#read(() => this.#newest())
  }

  /** Ask for new lines again and again. Return a function that ends it. */
  follow(): () => void {
    const tick = (): void => {
      if (document.visibilityState === 'visible') this.more()
      this.#timer = setTimeout(tick, PACE_MS)
    }
    this.#timer = setTimeout(tick, PACE_MS)
    return () => clearTimeout(this.#timer)
  }

  close(): void {
    this.#ended.abort()
    clearTimeout(this.#timer)
  }

  async #newest(): Promise<void> {
    this.window.value = jump(this.window.value, await this.#page({ tail: PAGE }))
  }

  async #page(wanted: { tail?: number; after?: number; limit?: number }): Promise<readonly LogLine[]> {
    const found = await get<Page<LogLine>>(`runs/${segment(this.runId)}/logs`, wanted, this.#ended.signal)
    return found.items
  }

  #read(read: () => Promise<void>): void {
    if (this.busy.peek()) return
    this.busy.value = true
    this.#queue = this.#queue.then(async () => {
      try {
        await read()
        this.error.value = null
      } catch (problem) {
        if (!this.#ended.signal.aborted) this.error.value = problem
      } finally {
        this.busy.value = false
        this.loading.value = false
      }
    })
  }
}

/** The log of a run for a view. `active`: more may be written. `line`: the one that the address names. */
export function useLog(runId: string, active: boolean, line: number | null): LogSource {
  const source = useRef<LogSource | null>(null)
  if (source.current === null || source.current.runId !== runId) source.current = new LogSource(runId, line)
  const current = source.current
  useEffect(() => {
    current.open()
    return () => current.close()
  }, [current])
  useEffect(() => {
    if (active) return current.follow()
    // The last lines are stored with the end of the run or a moment later.
    const timer = setTimeout(() => current.more(), PACE_MS)
    return () => clearTimeout(timer)
  }, [current, active])
  return current
}
