import { list } from '../../format'
import { duration } from '../../time'
import type { JsonObject } from '../../types'

/** Return what an asset promises, as a sentence; null if it promises nothing. */
export function promiseText(freshness: JsonObject | null): string | null {
  if (freshness === null) return null
  const { ttlMs, cadenceMs, cron, timezone, maxAgeMs } = freshness
  const times = [
    typeof ttlMs === 'number' ? `${duration(ttlMs)} after it was produced` : null,
    typeof cadenceMs === 'number' ? `every ${duration(cadenceMs)}` : null,
    typeof cron === 'string' ? `at \`${cron}\` (${typeof timezone === 'string' ? timezone : 'UTC'})` : null,
  ].filter((one): one is string => one !== null)
  const parts = [
    typeof maxAgeMs === 'number' ? `Promised: never older than ${duration(maxAgeMs)}.` : null,
    times.length > 0 ? `It expires ${list(times)}.` : null,
  ].filter((one): one is string => one !== null)
  return parts.length > 0 ? parts.join(' ') : null
}
