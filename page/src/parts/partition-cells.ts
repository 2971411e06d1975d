import { count, visible } from '../format'
import type { Json, JsonObject } from '../types'
import { grainOf, keyAt, ordinal, placeAt, startOf, type Grain } from './partition-keys'

/** Partitions in a row with equal states, as the API codes them: `to` is the newest. */
export interface StateRange {
  readonly state: string
  readonly from: string
  readonly to: string
  readonly count: number
}

/**
 * Partitions one by one, made of ranges. Those by time are in the order of time, the oldest first; others are in the
 * order of the API.
 */
export interface Cells {
  readonly total: number
  /** The grain of keys by time; null for other keys. */
  readonly grain: Grain | null
  readonly ranges: readonly StateRange[]
  readonly stateOf: (index: number) => string
  /** The key of a partition; null if only its place between two others is known. */
  readonly keyOf: (index: number) => string | null
  /** The place on the axis of time; without time the index. */
  readonly placeOf: (index: number) => number
  /** The reverse of `placeOf`; null if there is nothing at this place. */
  readonly indexAt: (place: number) => number | null
  /** Return the index of a key; -1 if it is not among them. */
  readonly indexOf: (key: string) => number
}

/** What is known beside the states: the declared partitioning, or the selection of a backfill as it is stored. */
export interface Known {
  readonly partitioning?: JsonObject | null
  readonly selection?: Json
}

/** Expand ranges, which come the newest first. */
export function cellsOf(listed: readonly StateRange[], known: Known = {}): Cells {
  const total = listed.reduce((sum, one) => sum + one.count, 0)
  const axis = axisOf(listed, total, known)
  const ranges = axis === null ? listed : [...listed].reverse()
  const starts: number[] = []
  let start = 0
  for (const one of ranges) {
    starts.push(start)
    start += one.count
  }
  const rangeAt = (index: number): number => lastAtMost(starts.length, (at) => starts[at]!, index)
  const shared = { total, ranges, stateOf: (index: number) => ranges[rangeAt(index)]?.state ?? '' }
  if (axis !== null) {
    const { grain, places } = axis
    const indexAt = (place: number): number | null => {
      const found = lastAtMost(total, (at) => places[at]!, place)
      return places[found] === place ? found : null
    }
    return {
      ...shared, grain, indexAt,
      keyOf: (index) => (index >= 0 && index < total ? keyAt(places[index]!, grain) : null),
      placeOf: (index) => places[index] ?? 0,
      indexOf: (key) => (grainOf(key) === grain ? indexAt(ordinal(key, grain)) ?? -1 : -1),
    }
  }
  const names = namesOf(ranges, total, known.partitioning ?? null)
  return {
    ...shared, grain: null, placeOf: (index) => index,
    indexAt: (place) => (place >= 0 && place < total ? place : null),
    keyOf: (index) => {
      const range = ranges[rangeAt(index)]
      if (range === undefined || index < 0 || index >= total) return null
      if (names !== null) return names[index] ?? null
      // Only the ends of a range have names. The first of a listing is its newest.
      const offset = index - starts[rangeAt(index)]!
      return offset === 0 ? range.to : offset === range.count - 1 ? range.from : null
    },
    indexOf: (key) => {
      if (names !== null) return names.indexOf(key)
      const at = ranges.findIndex((one) => one.to === key || one.from === key)
      return at < 0 ? -1 : starts[at]! + (ranges[at]!.to === key ? 0 : ranges[at]!.count - 1)
    },
  }
}

/** Return the last of `total` places, in ascending order, whose value is at most another one; 0 without any. */
function lastAtMost(total: number, valueOf: (at: number) => number, value: number): number {
  let [low, high] = [0, total - 1]
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (valueOf(middle) <= value) low = middle
    else high = middle - 1
  }
  return low
}

/** Return the places of all keys on the axis of time, the oldest first; null if they are not times. */
function axisOf(listed: readonly StateRange[], total: number, known: Known): { grain: Grain; places: Int32Array } | null {
  const [first, last] = [listed[0], listed.at(-1)]
  const grain = first === undefined ? null : grainOf(first.from)
  if (grain === null || last === undefined || first === undefined || total > MOST_PLACES) return null
  if (known.partitioning && known.partitioning.time !== grain) return null
  if (!listed.every((one) => grainOf(one.from) === grain && grainOf(one.to) === grain)) return null
  const dense = listed.every((one) => ordinal(one.to, grain) - ordinal(one.from, grain) + 1 === one.count)
  const places = dense
    ? [...listed].reverse().flatMap((one) => Array.from({ length: one.count }, (_, offset) => ordinal(one.from, grain) + offset))
    // A selection with gaps: a range of states may go over them.
    : selectedPlaces(known.selection, grain, last.from)
  const fits = places !== null && places.length === total && places[0] === ordinal(last.from, grain) && places.at(-1) === ordinal(first.to, grain)
  return fits ? { grain, places: Int32Array.from(places) } : null
}

const MOST_PLACES = 1_000_000

/** Return the places of a stored selection, `{times: [[begin, end], …]}`; null if it is none. */
function selectedPlaces(selection: Json | undefined, grain: Grain, oldest: string): number[] | null {
  const times = isObject(selection) && Array.isArray(selection.times) ? selection.times : []
  const windows = times.map((one) => (Array.isArray(one) ? one.map((at) => Date.parse(String(at))) : []))
  const begin = windows[0]?.[0]
  if (begin === undefined || windows.flat().some(Number.isNaN)) return null
  // A day of another time zone begins at another hour of UTC, and at one hour more or less after a change of the clocks.
  const slack = grain === 'minute' || grain === 'hour' ? 0 : SLACK_MS
  const off = begin - startOf(ordinal(oldest, grain), grain) - slack
  return windows.flatMap(([from = 0, to = 0]) => {
    const [start, end] = [placeAt(from - off, grain), placeAt(to - off, grain)]
    return Array.from({ length: Math.min(MOST_PLACES, Math.max(0, end - start)) }, (_, offset) => start + offset)
  })
}

const SLACK_MS = 2 * 3_600_000

/** Return the names of fixed keys or of dimensions in the order of the API; null if they do not fit the ranges. */
function namesOf(ranges: readonly StateRange[], total: number, partitioning: JsonObject | null): string[] | null {
  const first = ranges[0]
  const last = ranges.at(-1)
  if (partitioning === null || first === undefined || last === undefined) return null
  const names = Array.isArray(partitioning.keys) ? partitioning.keys.map(String)
    : isObject(partitioning.dimensions) ? products(partitioning.dimensions, first.to, last.from) : null
  if (names?.length !== total) return null
  let start = 0
  for (const one of ranges) {
    // A listing that the page cannot reproduce (a definition that changed a moment ago) keeps the names of its ends.
    if (names[start] !== one.to || names[start + one.count - 1] !== one.from) return null
    start += one.count
  }
  return names
}

/** Return the keys of dimensions in the order of the API: the time first, its newest key first. */
function products(dimensions: JsonObject, newest: string, oldest: string): string[] | null {
  const [to, from] = [newest.split('|'), oldest.split('|')]
  const axes = Object.values(dimensions).map((one, place): string[] | null => {
    if (!isObject(one)) return null
    if (Array.isArray(one.keys)) return one.keys.map(String)
    const [last, first] = [to[place] ?? '', from[place] ?? '']
    const grain = grainOf(last)
    if (grain === null || grainOf(first) !== grain || one.time !== grain) return null
    const most = ordinal(last, grain)
    return Array.from({ length: most - ordinal(first, grain) + 1 }, (_, index) => keyAt(most - index, grain))
  })
  const time = Object.values(dimensions).findIndex((one) => isObject(one) && one.time !== undefined)
  const order = [...axes.keys()].sort((a, b) => Number(a !== time) - Number(b !== time))
  let found: string[][] = [axes.map(() => '')]
  for (const place of order) {
    const axis = axes[place]
    if (axis === null || axis === undefined || found.length * axis.length > 200_000) return null
    found = found.flatMap((values) => axis.map((value) => values.map((old, at) => (at === place ? value : old))))
  }
  return found.map((values) => values.join('|'))
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Return how many partitions are in which state, of a part or of all: [0, total). */
export function countStates(cells: Cells, first = 0, last = cells.total - 1): Record<string, number> {
  const counts: Record<string, number> = {}
  let start = 0
  for (const one of cells.ranges) {
    const inside = Math.min(last, start + one.count - 1) - Math.max(first, start) + 1
    if (inside > 0) counts[one.state] = (counts[one.state] ?? 0) + inside
    start += one.count
  }
  return counts
}

/** Return `362 of 365 fresh, 2 stale, 1 failed`. `good`: the state that everything should have. */
export function countsText(counts: Readonly<Record<string, number>>, total: number, good = 'fresh'): string {
  if (total === 0) return 'no partition exists yet'
  const others = Object.entries(counts).filter(([state, n]) => n > 0 && state !== good).sort(([, a], [, b]) => b - a)
  return [`${count(counts[good] ?? 0)} of ${count(total)} ${good}`, ...others.map(([state, n]) => `${count(n)} ${state}`)]
    .join(', ')
}

/** Return the indexes between two cells, in order. */
export const between = (a: number, b: number): readonly [number, number] => (a <= b ? [a, b] : [b, a])

/** What the states of a backfill are called: the rest of it is still to come. */
const NAMES: Readonly<Record<string, string>> = { rest: 'to come', waiting: 'held' }
export const stateName = (state: string): string => NAMES[state] ?? state

/** Return what a cell says: its key and its state. */
export function cellText(cells: Cells, index: number): string {
  const key = cells.keyOf(index)
  return `${key === null ? `partition ${count(index + 1)} of ${count(cells.total)}` : visible(key)}: ${stateName(cells.stateOf(index))}`
}
