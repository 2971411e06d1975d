import { useSignal, type Signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { loginNeeded, Problem } from './api'
import { stream } from './stream'
import type { FreshlineEvent } from './types'

/** Data of a view: the last answer stays while a newer one is read, so nothing flickers. */
export interface Loaded<T> {
  readonly data: T | null
  readonly error: unknown
  readonly loading: boolean
  readonly reload: () => void
}

export interface Options {
  /** Which events make the view read again. Without it, none. */
  readonly events?: ((event: FreshlineEvent) => boolean) | undefined
  /** Also read again this often, while the tab is visible: for progress, which has no events. */
  readonly everyMs?: number | undefined
  /** False: nothing is read yet. */
  readonly enabled?: boolean
}

/** At most one read per this time, however many events arrive. */
const PACE_MS = 1000
const SOON_MS = 150
/** A read that did not reach the server is tried again after this time. */
const RETRY_MS = 5000

/**
 * Read data for a view, again when `key` changes and when events concern it.
 *
 * It subscribes before it reads, so that a change between the two is not missed.
 */
export function useLoad<T>(key: string, read: (stop: AbortSignal) => Promise<T>, options: Options = {}): Loaded<T> {
  const data = useSignal<T | null>(null)
  const error = useSignal<unknown>(null)
  const loading = useSignal(true)
  const again = useRef<() => void>(() => undefined)
  const wanted = useRef({ read, options })
  wanted.current = { read, options }
  const enabled = options.enabled ?? true

  useEffect(() => {
    if (!enabled) return
    data.value = null
    error.value = null
    const reading = follow(wanted, data, error, loading)
    again.current = reading.soon
    return reading.stop
  }, [key, enabled])

  return { data: data.value, error: error.value, loading: loading.value, reload: () => again.current() }
}

function follow<T>(
  wanted: { readonly current: { read: (stop: AbortSignal) => Promise<T>; options: Options } },
  data: Signal<T | null>, error: Signal<unknown>, loading: Signal<boolean>,
): { soon: () => void; stop: () => void } {
  const ended = new AbortController()
  let busy = false
  let dirty = false
  let last = 0
  let timer: ReturnType<typeof setTimeout> | undefined
  let retry: ReturnType<typeof setTimeout> | undefined

  const read = async (): Promise<void> => {
    timer = undefined
    clearTimeout(retry)
    busy = true
    dirty = false
    loading.value = true
    try {
      const found = await wanted.current.read(ended.signal)
      if (ended.signal.aborted) return
      data.value = found
      error.value = null
    } catch (problem) {
      if (ended.signal.aborted) return
      error.value = problem
      if (problem instanceof Problem && problem.status === 0) retry = setTimeout(schedule, RETRY_MS)
    } finally {
      busy = false
      last = Date.now()
      if (!ended.signal.aborted) {
        loading.value = false
        // What happened during the read may not be in its answer.
        if (dirty) schedule()
      }
    }
  }
  const schedule = (): void => {
    if (ended.signal.aborted || timer !== undefined) return
    // A tab that nobody sees reads when somebody sees it: eight tabs are not eight times the work.
    if (busy || document.visibilityState === 'hidden') {
      dirty = true
      return
    }
    timer = setTimeout(() => void read(), Math.max(SOON_MS, PACE_MS - (Date.now() - last)))
  }

  const source = stream()
  const unsubscribe = source.subscribe((events) => {
    if (events.some((one) => wanted.current.options.events?.(one) ?? false)) schedule()
  })
  let epoch = source.epoch.peek()
  const unreset = source.epoch.subscribe((now) => {
    if (now !== epoch) schedule()
    epoch = now
  })
  let connection = source.connection.peek()
  const unconnect = source.connection.subscribe((now) => {
    // A view that failed while the server was away is read again when it is back.
    if (now === 'live' && connection !== 'live' && (error.peek() !== null || connection === 'lost')) schedule()
    connection = now
  })
  const unlogin = loginNeeded.subscribe((needed) => {
    if (!needed && error.peek() !== null) schedule()
  })
  const seen = (): void => {
    if (document.visibilityState === 'visible' && dirty && !busy) schedule()
  }
  document.addEventListener('visibilitychange', seen)
  const every = wanted.current.options.everyMs
  const ticking = setInterval(() => {
    const pace = wanted.current.options.everyMs
    if (pace !== undefined && document.visibilityState === 'visible' && Date.now() - last >= pace - 50) schedule()
  }, every ?? 1000)
  void read()
  return {
    soon: schedule,
    stop() {
      ended.abort()
      clearTimeout(timer)
      clearTimeout(retry)
      clearInterval(ticking)
      document.removeEventListener('visibilitychange', seen)
      unsubscribe()
      unreset()
      unconnect()
      unlogin()
    },
  }
}

/** Return a filter for events about some assets or workflows. */
export function about(...names: (string | null | undefined)[]): (event: FreshlineEvent) => boolean {
  const wanted = new Set(names.filter((one): one is string => typeof one === 'string'))
  return (event) => wanted.has(event.subject) || wanted.has(String(event.data.assetId ?? '')) ||
    wanted.has(String(event.data.workflowSlug ?? ''))
}

export const any = (): boolean => true
export const ofType = (...prefixes: string[]) => (event: FreshlineEvent): boolean =>
  prefixes.some((one) => event.type.startsWith(one))
