import { logText } from '../format'
import type { LogLine } from '../types'

/** The lines that are loaded: one piece of the log without gaps. A log may be much longer than a page can hold. */
export interface LogWindow {
  readonly lines: readonly LogLine[]
  /** Whether there is nothing before the first line. */
  readonly start: boolean
  /** Whether the last line was the newest when it was read. */
  readonly end: boolean
}

/** At most this many lines are kept and shown. */
export const MOST_LINES = 5000
/** Rows of one block. A block whose rows are the same as before is not drawn again. */
export const BLOCK = 100

export const NO_LINES: LogWindow = { lines: [], start: false, end: false }

const last = (lines: readonly LogLine[]): number => lines.at(-1)?.line ?? -1

/** Add newer lines. Lines that are known are left out; the oldest ones go when there are too many. */
export function append(window: LogWindow, newer: readonly LogLine[], most = MOST_LINES): LogWindow {
  const known = last(window.lines)
  const added = newer.filter((one) => one.line > known)
  if (added.length === 0) return window
  const lines = [...window.lines, ...added]
  const over = lines.length - most
  return over > 0 ? { ...window, lines: lines.slice(over), start: false } : { ...window, lines }
}

/** Add older lines. The newest ones go when there are too many, and then the window does not end at the newest. */
export function prepend(window: LogWindow, older: readonly LogLine[], most = MOST_LINES): LogWindow {
  const first = window.lines[0]?.line ?? Infinity
  const added = older.filter((one) => one.line < first)
  // Retention removes the oldest lines, so the first one that is left may have any number.
  if (added.length === 0) return { ...window, start: true }
  const lines = [...added, ...window.lines]
  const start = added[0]!.line <= 1
  return lines.length > most ? { lines: lines.slice(0, most), start, end: false } : { lines, start, end: window.end }
}

/** Take the last lines of a log: they go on from what is there, or replace it if there is a gap. */
export function jump(window: LogWindow, tail: readonly LogLine[], most = MOST_LINES): LogWindow {
  const first = tail[0]?.line
  if (first === undefined) return { ...window, end: true }
  const joined = window.lines.length > 0 && first <= last(window.lines) + 1 && first >= window.lines[0]!.line
  const base = joined ? window : { ...NO_LINES, start: first <= 1 }
  return { ...append(base, tail, most), end: true }
}

/** What is chosen of the log; empty: everything. */
export interface LogFilter {
  readonly step: string
  readonly stream: string
}

export function chosen(lines: readonly LogLine[], filter: LogFilter): readonly LogLine[] {
  if (filter.step === '' && filter.stream === '') return lines
  return lines.filter((one) =>
    (filter.step === '' || one.stepId === filter.step) && (filter.stream === '' || one.stream === filter.stream))
}

/** Return the numbers of the lines that contain a text, whatever its case. */
export function matching(lines: readonly LogLine[], text: string): readonly number[] {
  const wanted = text.toLowerCase()
  if (wanted === '') return []
  return lines.filter((one) => logText(one.text).toLowerCase().includes(wanted)).map((one) => one.line)
}

/** Return the match after or before the current one, around the ends; the nearest to the end at first. */
export function step(matches: readonly number[], current: number | null, way: 1 | -1): number | null {
  if (matches.length === 0) return null
  const at = current === null ? -1 : matches.indexOf(current)
  if (at < 0) return (way === 1 ? matches[0] : matches.at(-1)) ?? null
  return matches[(at + way + matches.length) % matches.length] ?? null
}

/** Cut a text at its matches: the parts with an odd number are matches. */
export function pieces(text: string, wanted: string): readonly string[] {
  const lower = text.toLowerCase()
  const needle = wanted.toLowerCase()
  // A few characters have a longer lower case; then positions would not fit, and nothing is marked.
  if (needle === '' || lower.length !== text.length) return [text]
  const parts: string[] = []
  let from = 0
  for (let at = lower.indexOf(needle); at >= 0; at = lower.indexOf(needle, from)) {
    parts.push(text.slice(from, at), text.slice(at, at + needle.length))
    from = at + needle.length
  }
  parts.push(text.slice(from))
  return parts
}

/** A block of rows. `before`: the row above it, which says whether a heading is needed. */
export interface Block {
  readonly number: number
  readonly lines: readonly LogLine[]
  readonly before: LogLine | null
}

/** Cut lines into blocks by their numbers. Blocks that did not change are the same objects as before. */
export function blocks(lines: readonly LogLine[], known: readonly Block[]): readonly Block[] {
  const old = new Map(known.map((one) => [one.number, one]))
  const made: Block[] = []
  let from = 0
  while (from < lines.length) {
    const number = Math.floor(lines[from]!.line / BLOCK)
    let to = from + 1
    while (to < lines.length && Math.floor(lines[to]!.line / BLOCK) === number) to += 1
    const found = { number, lines: lines.slice(from, to), before: lines[from - 1] ?? null }
    const same = old.get(number)
    made.push(same !== undefined && equal(same, found) ? same : found)
    from = to
  }
  return made
}

function equal(one: Block, other: Block): boolean {
  return one.lines.length === other.lines.length && one.lines[0]?.line === other.lines[0]?.line &&
    last(one.lines) === last(other.lines) && one.before?.line === other.before?.line
}
