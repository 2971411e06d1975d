import { count, counted, list } from '../../format'
import { duration } from '../../time'
import type { Backfill, BackfillPreview, BackfillProgress, JsonObject } from '../../types'

/** Backfills in words, as the command line says them. */

/** Return what made the partitions of a proposal stale: `sales-daily: 11 partitions, never computed`. */
export function reasonText(reason: JsonObject): string {
  const partitions = typeof reason.partitions === 'number' ? counted(reason.partitions, 'partition') : 'partitions'
  return `${text(reason.workflowSlug)}: ${partitions}, ${whatHappened(reason)}`
}

function whatHappened(reason: JsonObject): string {
  if (reason.missing) return 'never computed'
  if ('workflowVersion' in reason) return `the code changed (version ${text(reason.workflowVersion)})`
  if ('assetId' in reason) return `input ${text(reason.assetId)} changed${reason.dataVersion ? ` to ${text(reason.dataVersion)}` : ''}`
  return reason.expired ? 'expired' : 'another job made their data'
}

const text = (value: unknown): string => (typeof value === 'string' || typeof value === 'number' ? String(value) : '')

export const share = (progress: BackfillProgress): number => (progress.total > 0 ? progress.done / progress.total : 0)

/** Return `120 of 366 (32 %) done, 1 failed, 4 running, 241 to come`. */
export function progressText(progress: BackfillProgress, ended: boolean): string {
  const rest: readonly (readonly [keyof BackfillProgress, string])[] = [
    ['failed', 'failed'], ['refused', 'refused'], ['running', 'running'], ['queued', 'queued'], ['waiting', 'held'],
    ['rest', ended ? 'not computed' : 'to come'],
  ]
  const parts = rest.flatMap(([name, word]) => (progress[name] > 0 ? [`${count(progress[name])} ${word}`] : []))
  return [`${count(progress.done)} of ${count(progress.total)} (${Math.floor(share(progress) * 100)} %) done`, ...parts].join(', ')
}

/** Return how long it takes: `about 1h 6m, at most 2h 18m with 4 runs at a time`. */
export function timeText(preview: BackfillPreview, concurrency: number): string {
  const measured = preview.parts.filter((one) => one.p50Ms !== null)
  if (measured.length === 0) return 'No run was measured yet, so it is not known how long this takes.'
  const total = (field: 'p50Ms' | 'p95Ms'): string =>
    duration(measured.reduce((sum, one) => sum + one.runs * (one[field] ?? 0), 0) / Math.max(1, concurrency))
  const unknown = preview.parts.length - measured.length
  return `About ${total('p50Ms')}, at most ${total('p95Ms')} with ${counted(concurrency, 'run')} at a time` +
    `${unknown > 0 ? `; ${counted(unknown, 'workflow')} not measured yet` : ''}.`
}

/** Return what is special about the partitions of a preview, as sentences. */
export function noteTexts(preview: BackfillPreview, partial: boolean): string[] {
  const sum = (name: 'frozen' | 'sealed' | 'outside'): number => preview.parts.reduce((all, one) => all + one[name], 0)
  const [frozen, sealed, outside] = [sum('frozen'), sum('sealed'), sum('outside')]
  const readers = preview.downstream.map((one) => `${one.workflowSlug} (${count(one.partitions)})`)
  const lacking = partial ? 'computed from what is left' : 'refused; with `--partial` they are computed from what is left'
  return [
    ...(frozen > 0 ? [`${counted(frozen, 'partition')} frozen: computed only for this backfill.`] : []),
    ...(sealed > 0 ? [`${counted(sealed, 'partition')} sealed, because retention has removed inputs: ${lacking}.`] : []),
    ...(outside > 0 ? [`${counted(outside, 'partition')} outside: removed by retention, and not computed.`] : []),
    ...(preview.downstream.length > 0 ? [`What reads them runs too, if its input changes: ${list(readers)}.`] : []),
  ]
}

/** Return when it ends, or ended; empty if that is not known. */
export function endText(one: Backfill): string {
  return one.endedAt === null && one.etaMs !== null ? `ends in about ${duration(one.etaMs)}` : ''
}
