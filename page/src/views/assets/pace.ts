import { useRef } from 'preact/hooks'
import { pause } from '../../sse'

/** Reading takes at most this share of the time, so that a large installation is not kept busy by open pages. */
const SHARE = 0.2

/** Return a function that does a read when enough time has passed since the last one with that name. */
export function usePace(): <T>(name: string, stop: AbortSignal, read: () => Promise<T>) => Promise<T> {
  const next = useRef<Record<string, number>>({})
  return async (name, stop, read) => {
    const left = (next.current[name] ?? 0) - Date.now()
    if (left > 0) await pause(left, stop)
    const start = Date.now()
    const found = await read()
    const took = Date.now() - start
    next.current[name] = Date.now() + took / SHARE - took
    return found
  }
}
