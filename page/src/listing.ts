import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { get, type Parameters } from './api'
import { stream } from './stream'
import type { FreshlineEvent, Page } from './types'

/** A listing, newest first, page by page. */
export interface Listing<T> {
  readonly items: readonly T[] | null
  /** How many items there are above the first one that is shown. */
  readonly fresh: number
  readonly more: boolean
  readonly busy: boolean
  readonly error: unknown
  readonly loadMore: () => void
  readonly showNew: () => void
  readonly reload: () => void
}

const PACE_MS = 1500

/**
 * Put a newer first page over the items that are shown: known ones are updated where they are, new ones wait until
 * the reader wants them. Nothing moves while somebody reads.
 */
export function merge<T>(
  shown: readonly T[], newest: readonly T[], id: (item: T) => string,
): { shown: readonly T[]; waiting: readonly T[] } {
  const known = new Set(shown.map(id))
  const updated = new Map(newest.map((one) => [id(one), one]))
  return {
    shown: shown.map((one) => updated.get(id(one)) ?? one),
    waiting: newest.filter((one) => !known.has(id(one))),
  }
}

/** Read a listing of the API. It starts again when `parameters` change, and follows `events`. */
export function useListing<T>(
  path: string, parameters: Parameters, id: (item: T) => string,
  options: { events?: (event: FreshlineEvent) => boolean; limit?: number; everyMs?: number } = {},
): Listing<T> {
  const limit = options.limit ?? 50
  const items = useSignal<readonly T[] | null>(null)
  const waiting = useSignal<readonly T[]>([])
  const next = useSignal<string | null>(null)
  const busy = useSignal(false)
  const error = useSignal<unknown>(null)
  const current = useRef<{ reload: () => void; more: () => void }>({ reload: () => undefined, more: () => undefined })
  const key = JSON.stringify([path, parameters])
  const wanted = useRef(options)
  wanted.current = options

  useEffect(() => {
    const ended = new AbortController()
    let last = 0
    let timer: ReturnType<typeof setTimeout> | undefined
    let dirty = false
    items.value = null
    waiting.value = []
    next.value = null

    const guarded = async (read: () => Promise<void>): Promise<void> => {
      if (busy.peek() && items.peek() !== null) {
        dirty = true
        return
      }
      busy.value = true
      try {
        await read()
        error.value = null
      } catch (problem) {
        if (!ended.signal.aborted) error.value = problem
      } finally {
        if (!ended.signal.aborted) {
          busy.value = false
          last = Date.now()
          if (dirty) {
            dirty = false
            soon()
          }
        }
      }
    }
    const page = (after: string | null): Promise<Page<T>> =>
      get<Page<T>>(path, { ...parameters, limit, after }, ended.signal)
    const first = (): Promise<void> => guarded(async () => {
      const found = await page(null)
      if (ended.signal.aborted) return
      const shown = items.peek()
      if (shown === null || shown.length === 0) {
        items.value = found.items
        next.value = found.next
        return
      }
      const merged = merge(shown, found.items, id)
      items.value = merged.shown
      waiting.value = merged.waiting
    })
    const soon = (): void => {
      if (timer !== undefined || ended.signal.aborted) return
      timer = setTimeout(() => {
        timer = undefined
        void first()
      }, Math.max(200, PACE_MS - (Date.now() - last)))
    }
    current.current = {
      reload: soon,
      more: () => void guarded(async () => {
        const found = await page(next.peek())
        if (ended.signal.aborted) return
        const known = new Set((items.peek() ?? []).map(id))
        items.value = [...(items.peek() ?? []), ...found.items.filter((one) => !known.has(id(one)))]
        next.value = found.next
      }),
    }
    const unsubscribe = stream().subscribe((events) => {
      if (events.some((one) => wanted.current.events?.(one) ?? false)) soon()
    })
    const every = setInterval(() => {
      const pace = wanted.current.everyMs
      if (pace !== undefined && document.visibilityState === 'visible' && Date.now() - last >= pace) soon()
    }, 1000)
    void first()
    return () => {
      ended.abort()
      busy.value = false
      clearTimeout(timer)
      clearInterval(every)
      unsubscribe()
    }
  }, [key])

  return {
    items: items.value,
    fresh: waiting.value.length,
    more: next.value !== null,
    busy: busy.value,
    error: error.value,
    loadMore: () => current.current.more(),
    reload: () => current.current.reload(),
    showNew() {
      // Most new items fit above what is shown. After a full page of them there may be a gap, so it starts anew.
      const shown = items.value ?? []
      if (waiting.value.length >= limit) {
        items.value = null
        current.current.reload()
      } else items.value = [...waiting.value, ...shown]
      waiting.value = []
    },
  }
}
