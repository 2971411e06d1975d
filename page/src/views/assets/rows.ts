import { count, few } from '../../format'
import { ASSET_STATES } from '../../states'
import type { Asset } from '../../types'

/** What a row shows of an asset besides its state. It is read after the names and states. */
export type Detail = Pick<Asset, 'workflowSlug' | 'upstreamFailing' | 'needsDecision' | 'producedAt' | 'expiresAt' | 'hold' | 'nextRefreshAt' | 'partitions'> & {
  readonly lastRun: { readonly runId: string; readonly status: string } | null
  readonly maxAgeMs: number | null
  /** Whether an update or an expiry makes it run by itself. */
  readonly automatic: boolean
}

export interface Row {
  readonly id: string
  readonly state: string
  /** Older than its maxAge promises, whatever its state is. */
  readonly overdue: boolean
  readonly detail: Detail | null
}

/** An entry of the list: a group's heading, or a row. */
export type Entry =
  | { readonly kind: 'group'; readonly name: string; readonly counts: readonly (readonly [string, number])[]; readonly total: number; readonly open: boolean }
  | { readonly kind: 'row'; readonly row: Row; readonly indented: boolean }

/** States that somebody should look at. */
export const ATTENTION: readonly string[] = ['failing', 'missing', 'overdue', 'stale']

export function detail(asset: Asset): Detail {
  const maxAge = asset.freshness?.maxAgeMs
  const last = asset.lastAutoRun
  return {
    workflowSlug: asset.workflowSlug,
    upstreamFailing: asset.upstreamFailing,
    needsDecision: asset.needsDecision,
    producedAt: asset.producedAt,
    expiresAt: asset.expiresAt,
    hold: asset.hold,
    nextRefreshAt: asset.nextRefreshAt,
    partitions: asset.partitions,
    lastRun: last === null ? null : { runId: last.runId, status: last.status },
    maxAgeMs: typeof maxAge === 'number' ? maxAge : null,
    automatic: asset.autoMaterialize !== null && asset.autoMaterialize.enabled !== false,
  }
}

/** Return by how much an asset is older than its maxAge; null if it is not, or has none. */
export function lateness(one: Detail | null, now: number): number | null {
  if (one === null || one.maxAgeMs === null || one.producedAt === null) return null
  const late = now - Date.parse(one.producedAt) - one.maxAgeMs
  return late > 0 ? late : null
}

export function toRows(
  states: Readonly<Record<string, string>>, details: ReadonlyMap<string, Detail>, now: number,
): Row[] {
  return Object.keys(states).sort(byName).map((id) => {
    const found = details.get(id) ?? null
    return { id, state: states[id]!, overdue: lateness(found, now) !== null, detail: found }
  })
}

/** The same order on every machine, and the one of the API: by code units, not by the reader's language. */
export const byName = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0)

/**
 * Return whether names match. A pattern with `*`, `?` or `[…]` matches the whole name, as in `freshline status`;
 * any other text is searched for in the name.
 */
export function matcher(text: string): (name: string) => boolean {
  const wanted = text.trim()
  if (wanted === '') return () => true
  if (!/[*?[]/.test(wanted)) {
    const part = wanted.toLowerCase()
    return (name) => name.toLowerCase().includes(part)
  }
  const pattern = new RegExp(`^${wanted.replace(/\[!?[^\]]*\]|[\s\S]/g, translated)}$`, 's')
  return (name) => pattern.test(name)
}

function translated(part: string): string {
  if (part === '*') return '.*'
  if (part === '?') return '.'
  if (part.length > 2 && part !== '[!]') {
    const inside = part.slice(1, -1).replace(/^!/, '^').replace(/[\\[]/g, '\\$&')
    // A range such as [z-a] is an error in a pattern; it matches nothing.
    try {
      return new RegExp(`[${inside}]`).source
    } catch {
      return '(?!)'
    }
  }
  return part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
}

/** Return whether a row is in a state that was chosen; `attention` stands for all that need some. */
export function inState(row: Row, wanted: string): boolean {
  if (wanted === '') return row.state !== 'retired'
  if (wanted === 'attention') return row.overdue || ATTENTION.includes(row.state)
  return wanted === 'overdue' ? row.overdue : row.state === wanted
}

/** Return how urgent a row is; lower is more urgent. */
export function urgency(row: Row): number {
  const states: readonly string[] = ASSET_STATES
  const own = states.indexOf(row.state)
  const rank = own < 0 ? states.length : own
  return row.overdue ? Math.min(rank, states.indexOf('overdue')) : rank
}

export function chosen(rows: readonly Row[], query: { q?: string; state?: string; order?: string }): Row[] {
  const matches = matcher(query.q ?? '')
  const found = rows.filter((row) => matches(row.id) && inState(row, query.state ?? ''))
  // Sorting is stable, so rows of one rank stay in the order of their names.
  return query.order === 'attention' ? found.sort((one, other) => urgency(one) - urgency(other)) : found
}

/** Return the group of a name: its first parts, without the last one. */
export function groupOf(id: string, depth: number): string {
  const parts = id.split('.')
  return parts.length === 1 ? '' : parts.slice(0, Math.min(depth, parts.length - 1)).join('.')
}

/** Return the rows under headings. Groups are in the order of their names, rows in the given order. */
export function grouped(rows: readonly Row[], depth: number, closed: ReadonlySet<string>): Entry[] {
  if (depth === 0) return rows.map((row) => ({ kind: 'row', row, indented: false }))
  const groups = new Map<string, Row[]>()
  for (const row of rows) {
    const name = groupOf(row.id, depth)
    const members = groups.get(name)
    if (members === undefined) groups.set(name, [row])
    else members.push(row)
  }
  return [...groups.keys()].sort(byName).flatMap((name): Entry[] => {
    const members = groups.get(name)!
    const open = !closed.has(name)
    const heading: Entry = { kind: 'group', name, counts: counts(members), total: members.length, open }
    return [heading, ...(open ? members.map((row): Entry => ({ kind: 'row', row, indented: true })) : [])]
  })
}

/** Return how many rows are in each state, the most urgent state first. */
export function counts(rows: readonly Row[]): (readonly [string, number])[] {
  const found = new Map<string, number>()
  for (const row of rows) found.set(row.state, (found.get(row.state) ?? 0) + 1)
  const known: readonly string[] = ASSET_STATES
  const rank = (state: string): number => (known.includes(state) ? known.indexOf(state) : known.length)
  return [...found].sort(([one], [other]) => rank(one) - rank(other) || byName(one, other))
}

/** Return how fresh everything is, as one line. Sources have no state of their own, so they are not in the share. */
export function summary(rows: readonly Row[]): string {
  const of = new Map(counts(rows))
  const number = (state: string): number => of.get(state) ?? 0
  const made = rows.length - number('source') - number('retired')
  const rest = [...of].filter(([state]) => !['fresh', 'source', 'retired'].includes(state)).map(([state, n]) => `${count(n)} ${state}`)
  const overdue = rows.filter((row) => row.overdue).length
  const sources = number('source')
  const parts = [
    `${count(number('fresh'))} of ${count(made)} fresh`,
    rest.length === 0 ? '' : few(rest, rest.length),
    overdue === 0 ? '' : `${count(overdue)} overdue`,
    sources === 0 ? '' : `${count(sources)} ${sources === 1 ? 'source' : 'sources'}`,
  ]
  return parts.filter((part) => part !== '').join('; ')
}

/**
 * Return which entries of a long list are on the screen, with some around them. `tops` are the positions where they
 * begin, with the total height at the end.
 */
export function visibleRange(tops: readonly number[], from: number, to: number, around: number): readonly [number, number] {
  const total = tops.length - 1
  if (total <= 0) return [0, 0]
  const first = Math.max(0, lastAtOrBefore(tops, from) - around)
  const last = Math.min(total, lastAtOrBefore(tops, to) + 1 + around)
  return [Math.min(first, total), Math.max(last, Math.min(first, total))]
}

function lastAtOrBefore(tops: readonly number[], position: number): number {
  let low = 0
  let high = tops.length - 1
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (tops[middle]! <= position) low = middle
    else high = middle - 1
  }
  return low
}
