import { counted, list } from '../format'
import { duration } from '../time'

/** A figure at each of the times of a chart; null where it is not known. */
export interface Series {
  /** What one value is, and what several are: a version, versions. */
  readonly name: readonly [one: string, many: string]
  readonly values: readonly (number | null)[]
  /** `steps`: a value holds until the next. `crosses`: single marks, for what went wrong. */
  readonly kind: 'line' | 'steps' | 'crosses'
  /** Where two are compared: the one before is grey and dashed. A value is read with this label. */
  readonly compared?: { readonly side: 'before' | 'after'; readonly label: string }
}

/** How a figure is written, and where its axis may have ticks. */
export interface Unit {
  readonly show: (value: number) => string
  /** The same for an axis, where there is little room. */
  readonly tick: (value: number) => string
  readonly steps: readonly number[]
}

/** The width of the axis of values, the space on the other side, and the height of the axis of time, in pixels. */
export const SIDE = 72
export const RIGHT = 16
export const CLOCK = 26

const [SECOND, MINUTE, HOUR, DAY] = [1000, 60_000, 3_600_000, 86_400_000]
const decimal = (from: number, to: number): number[] => {
  const found: number[] = []
  for (let size = from; size <= to; size *= 10) found.push(size, 2 * size, 5 * size)
  return found
}
const binary = Array.from({ length: 56 }, (_, power) => 2 ** power)
const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 })

export const ROWS: Unit = {
  show: (value) => `${value.toLocaleString('en-US')} ${value === 1 ? 'row' : 'rows'}`,
  tick: (value) => compact.format(value),
  steps: decimal(1, 1e15),
}
export const RUNS: Unit = { ...ROWS, show: (value) => counted(value, 'run') }
export const TIME: Unit = {
  show: duration,
  tick: (value) => (value === 0 ? '0' : duration(value)),
  steps: [
    ...decimal(1, 100), ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND), ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
    ...[1, 2, 3, 6, 12].map((n) => n * HOUR), ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((n) => n * DAY),
  ],
}
export const size = (show: (value: number) => string): Unit => ({ show, tick: show, steps: binary })

/** Return whether there is a value to draw. */
export const drawable = (series: readonly Series[]): boolean =>
  series.some((one) => one.values.some((value) => value !== null))

/** Return what a picture says, for those who do not see it: `Rows: 4 values, at least 3 rows, at most 5 rows, last 5 rows`. */
export function summary(label: string, series: readonly Series[], unit: Unit): string {
  const parts = series.flatMap((one) => {
    const values = one.values.filter((value) => value !== null)
    if (values.length === 0) return []
    const [least, most] = values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity])
    const last = unit.show(values.at(-1)!)
    const number = counted(values.length, ...one.name)
    return [values.length === 1 ? `${number}, ${last}`
      : least === most ? `${number}, all ${last}`
      : `${number}, at least ${unit.show(least)}, at most ${unit.show(most)}, last ${last}`]
  })
  return `${label}: ${parts.length === 0 ? 'no values' : parts.join('; ')}`
}

/** Return the values at one time, as a sentence has them; empty if none is known. */
export function reading(series: readonly Series[], unit: Unit, index: number): string {
  const known = series.flatMap((one) => {
    const value = one.values[index]
    if (value === null || value === undefined) return []
    const label = one.compared === undefined ? '' : ` ${one.compared.label}`
    return [one.kind === 'crosses' ? `${unit.show(value)}, ${one.name[0]}` : `${unit.show(value)}${label}`]
  })
  return list(known)
}

/** Return the index of the last time at which something is known; -1 if none is. */
export const lastKnown = (series: readonly Series[]): number =>
  Math.max(-1, ...series.map((one) => one.values.findLastIndex((value) => value !== null)))

/** Return the range of the axis: from zero, with room above the largest value. */
export function heightOf(series: readonly Series[]): [number, number] {
  let most = 0
  for (const one of series) for (const value of one.values) if (value !== null && value > most) most = value
  return [0, most === 0 ? 1 : most * 1.15]
}

/** Return the index of the interval that a time is in; the times are the starts of intervals. */
export const intervalAt = (times: readonly number[], time: number): number =>
  Math.max(0, times.findLastIndex((one) => one <= time))

/** Return the range of time; one time is in the middle. `until`: the end of the interval that begins at the last time. */
export function spanOf(times: readonly number[], until?: number): [number, number] {
  const [first, last] = [times[0] ?? 0, until ?? times.at(-1) ?? 0]
  return first === last ? [first - MINUTE, last + MINUTE] : [first, last]
}

/** Return the texts of ticks of time in the reader's zone: clocks, with the day where it begins; days if they are further apart. */
export function clocks(times: readonly number[], apart: number): string[] {
  let before = ''
  return times.map((one) => {
    const time = new Date(one)
    const day = time.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' })
    if (apart >= DAY) return day
    const clock = time.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', ...(apart < MINUTE ? { second: '2-digit' } : {}), hour12: false })
    const text = day === before ? clock : `${day} ${clock}`
    before = day
    return text
  })
}
