import { count, counted } from '../../format'
import { duration } from '../../time'
import type { Simulation, SimulationResult } from '../../types'

/** A figure of a simulation, before and after. */
export interface Figure {
  readonly name: string
  readonly meaning: string
  readonly before: number | null
  readonly after: number | null
  readonly show: (value: number) => string
  /** Whether less of it is better without a doubt. Runs and cost are a trade against lag. */
  readonly lessIsBetter: boolean
}

const seconds = (value: number): string => duration(value * 1000)
const hours = (value: number): string => value.toLocaleString('en-US', { minimumFractionDigits: 1, maximumFractionDigits: value < 1 ? 2 : 1 })

type Pick = readonly [name: string, meaning: string, of: (result: SimulationResult) => number | null, show: (value: number) => string, better: boolean]
const PICKS: readonly Pick[] = [
  ['runs', 'runs that started', (one) => one.runs, count, false],
  ['slot hours', 'the total duration of all runs', (one) => one.slotHours, hours, false],
  ['lag, median', 'from a change of a source to the publication of an asset that was computed from it', (one) => one.lagSeconds?.p50 ?? null, seconds, true],
  ['lag, p95', '95 of 100 changes arrive faster', (one) => one.lagSeconds?.p95 ?? null, seconds, true],
  ['lag, largest', 'the slowest change', (one) => one.lagSeconds?.max ?? null, seconds, true],
  ['broken promises', 'how often an asset became older than its maxAge', (one) => one.breaches, count, true],
  ['failed runs', 'runs that failed', (one) => one.failed, count, true],
  ['mixed runs', 'runs that may have read two generations of a source', (one) => one.mixed, count, true],
  ['runs avoided', 'runs that were not needed, because an output was identical', (one) => one.avoided, count, false],
  ['held partitions', 'partitions that wait for an approval at the end', (one) => one.heldPartitions, count, true],
  ['pending at the end', 'changes that had not arrived at the end', (one) => one.pending, count, true],
]

/** Return the figures that are compared; those that are zero on both sides say nothing and are left out. */
export function figures(before: SimulationResult, after: SimulationResult | null): Figure[] {
  return PICKS.map(([name, meaning, of, show, lessIsBetter]) => ({
    name, meaning, before: of(before), after: after === null ? null : of(after), show, lessIsBetter,
  })).filter((one, index) => index < 4 || (one.before ?? 0) !== 0 || (one.after ?? 0) !== 0)
}

/** Return the difference as a text: +12 (+30%), −3m, or `the same`. */
export function change(figure: Figure): string {
  const { before, after, show } = figure
  if (before === null || after === null) return ''
  if (before === after) return 'the same'
  const sign = after > before ? '+' : '−'
  const share = before === 0 ? '' : ` (${sign}${Math.max(1, Math.round((Math.abs(after - before) / before) * 100))}%)`
  return `${sign}${show(Math.abs(after - before))}${share}`
}

/** Return the answer in one sentence. */
export function verdict(answer: Simulation): string {
  const { before, after } = answer
  if (answer.reports === 0) return 'No source was reported in this time, so there is nothing to compare.'
  const lag = (one: SimulationResult): string => (one.lagSeconds === null ? 'no lag' : seconds(one.lagSeconds.p95))
  if (after === null) {
    return `${count(before.runs)} runs in ${hours(before.slotHours)} slot hours; 95 of 100 changes arrive within ${lag(before)}.`
  }
  const runs = before.runs === after.runs ? `the same ${count(after.runs)} runs` : `${count(after.runs)} runs instead of ${count(before.runs)}`
  const same = hours(after.slotHours) === hours(before.slotHours)
  const cost = same ? `${hours(after.slotHours)} slot hours as before` : `${hours(after.slotHours)} slot hours instead of ${hours(before.slotHours)}`
  const late = lag(after) === lag(before) ? `95 of 100 changes still arrive within ${lag(after)}`
    : `95 of 100 changes arrive within ${lag(after)} instead of ${lag(before)}`
  const broken = after.breaches === before.breaches ? '' : `; ${count(after.breaches)} broken promises instead of ${count(before.breaches)}`
  return `With the change: ${runs}, ${cost}; ${late}${broken}.`
}

/** Return of how many partitions the runs of a workflow were: of 16 partitions, or of 12 instead of 16 partitions. */
export function partitionsText(before: number | null, after: number | null): string {
  const known = after ?? before
  if (known === null || (known === 0 && (before ?? 0) === 0)) return ''
  const instead = before !== null && before !== known ? `${count(known)} instead of ${counted(before, 'partition')}` : counted(known, 'partition')
  return `of ${instead}`
}

/** Return workflows with the largest differences first; the changed ones before the others. */
export function ordered(answer: Simulation): Simulation['workflows'] {
  const moved = (one: Simulation['workflows'][number]): number =>
    Math.abs((one.after?.runs ?? one.before?.runs ?? 0) - (one.before?.runs ?? 0))
  const size = (one: Simulation['workflows'][number]): number => Math.max(one.before?.runs ?? 0, one.after?.runs ?? 0)
  return [...answer.workflows].sort((one, other) =>
    Number(other.changed) - Number(one.changed) || moved(other) - moved(one) || size(other) - size(one) || (one.slug < other.slug ? -1 : 1))
}

/** Return the reasons for holds with their numbers before and after, the most frequent first. */
export function holds(answer: Simulation): (readonly [reason: string, before: number, after: number | null])[] {
  const names = [...new Set([...Object.keys(answer.before.holds), ...Object.keys(answer.after?.holds ?? {})])]
  const rows = names.map((name) => [name, answer.before.holds[name] ?? 0, answer.after === null ? null : (answer.after.holds[name] ?? 0)] as const)
  return rows.sort((one, other) => Math.max(other[1], other[2] ?? 0) - Math.max(one[1], one[2] ?? 0) || (one[0] < other[0] ? -1 : 1))
}
