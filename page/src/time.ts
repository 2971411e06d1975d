import { signal } from '@preact/signals'

/** The current time, moved every few seconds: one timer for all ages on the page. */
export const now = signal(Date.now())

let ahead = 0

/** Take the database's time of an answer, so that ages are right on a machine with a wrong clock. */
export function serverTime(at: string): void {
  const time = Date.parse(at)
  if (Number.isNaN(time)) return
  const off = time - Date.now()
  // A difference below a second is the way of the answer.
  ahead = Math.abs(off) < 1000 ? 0 : off
  tick()
}

export function tick(): void {
  now.value = Date.now() + ahead
}

const UNITS: readonly (readonly [string, number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
]

/** Return a duration with its two largest units: 1h 30m, 2d, 45s, 120 ms. */
export function duration(ms: number): string {
  const left = Math.max(0, Math.round(ms))
  if (left < 1000) return `${left} ms`
  for (const [index, [unit, size]] of UNITS.entries()) {
    if (left < size) continue
    const whole = Math.floor(left / size)
    const next = UNITS[index + 1]
    const rest = next === undefined ? 0 : Math.floor((left % size) / next[1])
    return rest > 0 && next !== undefined ? `${whole}${unit} ${rest}${next[0]}` : `${whole}${unit}`
  }
  return '0s'
}

/** Return the milliseconds from one time to another; null if one is not known. */
export const between = (from: string | null, to: string | null): number | null =>
  from === null || to === null ? null : Math.max(0, Date.parse(to) - Date.parse(from))

/** Return how long ago a time was, or how long it is until then: 5m ago, in 2h. */
export function relative(iso: string, from: number = now.value): string {
  const off = Date.parse(iso) - from
  if (Number.isNaN(off)) return iso
  if (Math.abs(off) < 1500) return 'now'
  const rough = Math.abs(off)
  const text = largest(rough)
  return off < 0 ? `${text} ago` : `in ${text}`
}

function largest(ms: number): string {
  for (const [unit, size] of UNITS) if (ms >= size) return `${Math.floor(ms / size)}${unit}`
  return '1s'
}

/** Return a time in the reader's zone: today as 14:05:09, this year as 3 Mar 14:05, others with the year. */
export function local(iso: string, from: number = now.value): string {
  const time = new Date(iso)
  if (Number.isNaN(time.getTime())) return iso
  const today = new Date(from)
  const clock = time.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false })
  if (time.toDateString() === today.toDateString()) return clock
  const sameYear = time.getFullYear() === today.getFullYear()
  const day = time.toLocaleDateString(undefined, {
    day: 'numeric', month: 'short', ...(sameYear ? {} : { year: 'numeric' }),
  })
  return `${day} ${clock.slice(0, 5)}`
}

/** Return a time in UTC, to the second: 2026-01-05 09:00:00 UTC. */
export function absolute(iso: string): string {
  const time = new Date(iso)
  return Number.isNaN(time.getTime()) ? iso : `${time.toISOString().slice(0, 19).replace('T', ' ')} UTC`
}

/** Return the value of a datetime-local field as a time with a zone; null if it is empty or wrong. */
export function fromField(value: string): string | null {
  if (value === '') return null
  const time = new Date(value)
  return Number.isNaN(time.getTime()) ? null : time.toISOString()
}

/** Return a time as a datetime-local field takes it, in the reader's zone. */
export function toField(time: number): string {
  const zone = new Date(time).getTimezoneOffset() * 60_000
  return new Date(time - zone).toISOString().slice(0, 16)
}
