import { counted, few, named, quote, short } from '../format'
import type { AssetState, Conclusion, InputEvidence, NextStep, RootCause } from '../types'

/** What a decision is made of, in words: the inputs, what ends a hold, and what would make it run. */

/** One line of the table of inputs: one input, or the rest of its partitions. */
export interface InputRow {
  readonly assetId: string
  readonly partitionKey: string
  readonly from: string | null
  readonly to: string | null
  readonly changed: boolean
  /** The difference in words. */
  readonly meaning: string
  /** How many partitions the line stands for. */
  readonly count: number
}

const MOST_PARTITIONS = 5

/** Return the lines of the inputs. Of many partitions of an input the first that changed have one, the rest one. */
export function inputRows(inputs: readonly InputEvidence[]): InputRow[] {
  const byAsset = new Map<string, InputEvidence[]>()
  for (const one of inputs) byAsset.set(one.assetId, [...(byAsset.get(one.assetId) ?? []), one])
  return [...byAsset.values()].flatMap((all) => {
    const shown = all.length <= MOST_PARTITIONS ? all : all.filter((one) => one.changed).slice(0, MOST_PARTITIONS)
    const rest = all.filter((one) => !shown.includes(one))
    return [...shown.map(inputRow), ...(rest.length > 0 ? [restRow(rest, shown.length > 0)] : [])]
  })
}

function inputRow(one: InputEvidence): InputRow {
  return {
    assetId: one.assetId, partitionKey: one.partitionKey ?? '', from: one.from, to: one.to, changed: one.changed,
    meaning: meaningOf(one), count: 1,
  }
}

function restRow(rest: readonly InputEvidence[], more: boolean): InputRow {
  const changed = rest.filter((one) => one.changed).length
  return {
    assetId: rest[0]!.assetId, partitionKey: '', from: null, to: null, changed: changed > 0, count: rest.length,
    meaning: `${counted(rest.length, more ? 'more partition' : 'partition')}: ${changed > 0 ? `${changed} changed` : 'the same'}`,
  }
}

function meaningOf(one: InputEvidence): string {
  if (one.retired) return 'removed by retention'
  if (!one.changed) return 'the same'
  const times = one.changes > 1 ? `changed ${one.changes} times` : 'changed'
  return one.triggers ? times : `${times}, may not trigger`
}

/** Return when the hold of a decision ends; null if no time ends it. */
export function holdEnd(one: Conclusion): string | null {
  const { until, deadline, nextProbeAt } = one.evidence
  return deadline ?? until ?? nextProbeAt ?? null
}

/** What ends each hold, as a sentence. A command is between backticks. */
type Ends = (one: Conclusion) => string
const slug = (one: Conclusion): string => quote(one.workflowSlug)
const ENDS: Readonly<Record<string, Ends>> = {
  'input-missing': (one) => `${few(one.evidence.missing ?? []) || 'The missing input'} must exist: report it, or run its producer.`,
  'input-retired': () => 'A longer `retain` of the input brings its rows back. A backfill with `--partial` computes it from what is left.',
  frozen: () => 'A backfill of this partition, or a longer `frozenAfter`.',
  'in-flight': (one) => `The run ${short(one.evidence.runId)} must end. One run follows if a cause remains.`,
  paused: (one) => `The pause must end: \`freshline resume ${slug(one)}\`.`,
  'breaker-open': (one) => `The next try must succeed. \`freshline reset ${slug(one)}\` closes the breaker at once.`,
  'cooling-down': (one) => `The cooldown must end. \`freshline reset ${slug(one)}\` ends it at once.`,
  canceled: (one) => `New data, a new definition, \`freshline run ${slug(one)}\` or \`freshline reset ${slug(one)}\`.`,
  'backfill-proposed': () => 'The proposal must be approved or denied.',
  'quiet-hours': () => 'The quiet hours must end.',
  'input-too-old': (one) => `${one.evidence.assetId ?? 'The input'} must be refreshed. A report of the same data is enough.`,
  'waiting-for-all': (one) => `${few(one.evidence.waitingFor ?? []) || 'The other inputs'} must be produced again.`,
  'waiting-for-upstream': ({ evidence: { blockers = [], deadline } }) => {
    const who = few(blockers.map((blocker) => named(blocker.workflowSlug, blocker.partitionKey)))
    return `${who || 'The workflows above it'} must end.${deadline ? ` It waits until ${deadline} at the latest.` : ''}`
  },
  debouncing: () => 'Its inputs must stay the same until the debounce ends.',
  'min-interval': () => 'The minimum time between two runs must pass.',
}

/**
 * Return what would make it run, as sentences, each of which is enough together with those before it. `asset`: the
 * state of the asset, for the time of its next expiry.
 */
export function wouldRun(one: Conclusion, asset: Pick<AssetState, 'expiresAt' | 'expired'> | null): string[] {
  const manual = `\`freshline run ${slug(one)}${one.partitionKey === '' ? '' : ` --partition ${quote(one.partitionKey)}`}\` runs it now, whatever holds it.`
  if (one.outcome === 'run') return ['A run was queued. Nothing else is needed.']
  if (one.outcome === 'error') return ['The definition must be corrected and applied.', manual]
  if (one.outcome === 'hold') {
    const holds = [one.reason, ...(one.evidence.alsoHeldBy ?? [])]
    return [...holds.map((reason) => (ENDS[reason] ?? (() => `${reason.replaceAll('-', ' ')} must end.`))({ ...one, reason })), manual]
  }
  return [...(one.reason === 'up-to-date' ? freshRuns(one, asset) : []), ...(NOT_AUTOMATIC[one.reason] ?? []), manual]
}

const NOT_AUTOMATIC: Readonly<Record<string, string[]>> = {
  'policy-off': ['Its `autoMaterialize` block has `enabled: false`: it must be enabled.'],
  'not-auto': ['It has no `autoMaterialize` block: with one it would run by itself.'],
}

function freshRuns(one: Conclusion, asset: Pick<AssetState, 'expiresAt' | 'expired'> | null): string[] {
  const triggers = [...new Set((one.evidence.inputs ?? []).filter((input) => input.triggers).map((input) => input.assetId))]
  const expires = asset?.expiresAt != null && !asset.expired ? [`Its expiry at ${asset.expiresAt}.`] : []
  return [
    ...(triggers.length > 0 ? [`A change of ${few(triggers, 5).replace(/ and (?=[^ ]+$)/, ' or ')}.`] : []),
    ...expires,
    'A change of its definition.',
  ]
}

/** Return the root causes that concern a partition: a failure of another partition of the same workflow explains nothing. */
export function causesOf(causes: readonly RootCause[], workflowSlug: string | null, partition: string): RootCause[] {
  return causes.filter((one) => partition === '' || one.workflowSlug !== workflowSlug || one.partitionKey === '' || one.partitionKey === partition)
}

/** Return a root cause as a sentence, and what to do. */
export function rootCauseStep(cause: RootCause): { sentence: string; next: NextStep } {
  const asset = cause.assetId ?? ''
  const workflow = cause.workflowSlug ?? ''
  const line = (cause.error ?? '').trim().split('\n')[0]?.replace(/\.$/, '') ?? ''
  switch (cause.kind) {
    case 'never-reported':
      return step(`${asset} was never reported`, 'Report it when its data is there', reportCommand(cause), 'report', asset)
    case 'nothing-found':
      return step(
        line === '' ? `The watcher of ${asset} has found nothing yet` : `Looking at ${asset} fails: ${line}`,
        'See what its watcher looks for', `freshline watch show ${quote(asset)}`,
      )
    case 'failing':
      return step(
        `Run ${short(cause.runId)} of ${named(workflow, cause.partitionKey)} failed: ${line || 'no error was stored'}`,
        'Read the log of the run, and correct its job. Then end the cooldown', `freshline reset ${quote(workflow)}`, 'reset', workflow,
      )
    case 'paused':
      return step(`${workflow} is paused`, 'End the pause; one run catches up', `freshline resume ${quote(workflow)}`, 'resume', workflow)
    default:
      return step(`${workflow} was never run, and runs only when asked to`, 'Run it', `freshline run ${quote(workflow)}`, 'run', workflow)
  }
}

type ActionType = NonNullable<NextStep['action']>['type']

function step(sentence: string, text: string, command: string, type?: ActionType, target?: string): { sentence: string; next: NextStep } {
  return { sentence, next: { text, command, action: type === undefined || target === undefined ? null : { type, target } } }
}

function reportCommand(cause: RootCause): string {
  const key = cause.partitioned ? ' --partition KEY' : ''
  return `freshline report ${quote(cause.assetId ?? '')}${key}${cause.append ? ` --payload '{"path": "..."}'` : ''}`
}
