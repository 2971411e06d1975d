import { counted, few, named, short, version } from '../format'
import { duration } from '../time'
import type { Blocker, Conclusion, Evidence, EventFate, InputEvidence } from '../types'

/**
 * Sentences about decisions and about fates of events, as the command line says them. Times stay as ISO texts:
 * `Sentence` shows them in the reader's zone. A decision that comes with a sentence of the server keeps that.
 */
type Say = (one: Conclusion, evidence: Evidence) => string

const VERBS: Readonly<Record<string, string>> = { run: 'run', hold: 'held', skip: 'nothing to do', error: 'error' }

const MOTIONS: Readonly<Record<string, string>> = {
  running: 'which is running',
  queued: 'which is queued',
  due: 'which is about to be evaluated',
  unabsorbed: 'whose inputs have just changed',
  timer: 'whose freshness has just run out',
  stale: 'which did not read the current data and is not automatic',
}

export function conclusionText(one: Conclusion & { readonly sentence?: string }): string {
  if (one.sentence) return one.sentence
  return `${VERBS[one.outcome] ?? one.outcome}: ${reasonText(one)}${also(one.evidence)}`
}

/** Return the reason of a decision without its outcome. */
export function reasonText(one: Conclusion): string {
  const say = Object.hasOwn(REASONS, one.reason) ? REASONS[one.reason]! : () => one.reason.replaceAll('-', ' ')
  return say(one, one.evidence)
}

const output: Say = (one, evidence) => (evidence.assetId ? named(evidence.assetId, one.partitionKey) : 'an output')
const until = (evidence: Evidence, word = 'until'): string => (evidence.until ? ` ${word} ${evidence.until}` : '')
const failures = (n: number | undefined): string => (n === undefined ? 'failures' : counted(n, 'failure'))

const expired: Say = (one, evidence) => {
  const { expiry } = evidence
  const asset = output(one, evidence)
  if (!expiry) return `the freshness of ${asset} ran out`
  return expiry.reason === 'manual' ? `${asset} was expired by hand at ${expiry.expiresAt}`
    : `the freshness of ${asset} ran out at ${expiry.expiresAt} (${expiry.reason})`
}

const changed: Say = (_, evidence) => {
  const inputs = (evidence.inputs ?? []).filter((input) => input.changed && input.triggers)
  return few(inputs.map(moved)) || 'an input changed'
}

function moved(one: InputEvidence): string {
  const name = named(one.assetId, one.partitionKey)
  return one.retired ? `retention has removed ${name}` : `${name} changed (${version(one.from)} → ${version(one.to)})`
}

const redefined: Say = (_, evidence) => {
  const foreign = evidence.foreign ?? []
  if (foreign.length > 0) {
    return few(foreign.map((one) => `the current data of ${one.assetId} was ${one.madeBy ? `made by workflow ${one.madeBy}` : 'reported from outside'}`))
  }
  const changes = evidence.changes ?? []
  return `its definition changed since the last success${changes.length > 0 ? `: ${changes.join(', ')}` : ''}`
}

const missing: Say = (one, evidence) => `${output(one, evidence)} was never produced`
const demanded: Say = (one, evidence) =>
  `backfill ${evidence.backfillId ? `${short(evidence.backfillId)} ` : ''}demands ${output(one, evidence)}`

const CAUSES: Readonly<Record<string, Say>> = {
  missing, expired, backfill: demanded, 'definition-changed': redefined, 'upstream-update': changed,
}

const HOLDS: Readonly<Record<string, Say>> = {
  'input-missing': (_, evidence) => {
    const absent = evidence.missing ?? []
    return `${few(absent) || 'an input'} ${absent.length === 1 ? 'does' : 'do'} not exist yet`
  },
  'input-retired': (_, evidence) => {
    const gone = evidence.retired ?? []
    const more = (evidence.retiredCount ?? gone.length) - gone.length
    return `retention has removed ${few([...gone, ...(more > 0 ? [`${more} more`] : [])]) || 'an input'}, and a run would lack these rows`
  },
  frozen: (_, evidence) => `it is frozen${evidence.frozenAt ? ` since ${evidence.frozenAt}` : ''}: it is older than \`frozenAfter\`, so only a backfill or a manual run computes it`,
  'in-flight': (_, evidence) => `its run ${short(evidence.runId)} is already ${evidence.runStatus ?? 'there'}${evidence.renewed ? '; that run will read the new data' : ''}`,
  paused: (_, evidence) => `it is paused ${evidence.until ? `until ${evidence.until}` : 'without an end'}`,
  'breaker-open': (_, evidence) => `its breaker is open after ${failures(evidence.failures)}${evidence.nextProbeAt ? `; the next try is at ${evidence.nextProbeAt}` : ''}`,
  'cooling-down': (_, evidence) => `it cools down after ${failures(evidence.failures)}${until(evidence)}`,
  canceled: () => 'a run with exactly these versions was canceled',
  'backfill-proposed': (one, evidence) => {
    const cause = CAUSES[evidence.cause ?? '']
    const more = `more${evidence.limit === undefined ? '' : ` than ${counted(evidence.limit, 'old partition')}`}`
    const held = evidence.backfillId ? `it waits for an approval, because ${more} would run` : `it is held, because ${more} may run`
    return `${cause ? `${cause(one, evidence)}; ` : ''}${held}`
  },
  'quiet-hours': (_, evidence) => `it has quiet hours${until(evidence)}`,
  'input-too-old': (_, evidence) => `its input ${evidence.assetId ?? ''} is too old${evidence.producedAt ? ` (produced ${evidence.producedAt}` : ' ('}${evidence.maxAgeMs === undefined ? '' : `; at most ${duration(evidence.maxAgeMs)} are allowed`})`,
  'waiting-for-all': (_, evidence) => `it runs when all inputs moved; ${few(evidence.waitingFor ?? []) || 'some'} did not yet`,
  'waiting-for-upstream': (_, evidence) => {
    const end = evidence.deadline ?? evidence.until
    return `waiting for upstream ${few((evidence.blockers ?? []).map(blocker)) || 'workflows'}${end ? `, until ${end} at the latest` : ''}`
  },
  debouncing: (_, evidence) => `it lets updates settle${until(evidence)}`,
  'min-interval': (_, evidence) => `it ran a short time ago; not again${until(evidence, 'before')}`,
}

const REASONS: Readonly<Record<string, Say>> = {
  ...CAUSES,
  ...HOLDS,
  retry: (one, evidence) => `tried again after a failure; ${(CAUSES[evidence.cause ?? ''] ?? redefined)(one, evidence)}`,
  'up-to-date': (_, evidence) => {
    const gone = evidence.superseded ? `; its queued run ${short(evidence.superseded)} is not needed any more` : ''
    if (evidence.inputs?.some((one) => one.unread && one.triggers)) return `only columns changed that it does not read${gone}`
    return evidence.retiredAt ? `retention has removed its data, which was kept until ${evidence.retiredAt}${gone}`
      : `it was computed from exactly the current inputs${gone}`
  },
  'policy-off': () => 'its autoMaterialize is switched off',
  'not-auto': () => 'it has no autoMaterialize block, so it runs only when asked to',
  'evaluation-failed': (_, evidence) => `it could not be decided: ${evidence.error ?? 'no error was stored'}`,
}

/** Every reason that a decision can have, for filters. */
export const REASON_NAMES: readonly string[] = Object.keys(REASONS)

function blocker(one: Blocker): string {
  const state = MOTIONS[one.motion] ?? (Object.hasOwn(HOLDS, one.motion) ? `which is held: ${one.motion.replaceAll('-', ' ')}` : 'which is moving')
  return `workflow ${named(one.workflowSlug, one.partitionKey)}, ${state}${one.until ? ` until ${one.until}` : ''}`
}

function also(evidence: Evidence): string {
  const passed = few((evidence.waitedOut ?? []).map(blocker))
  const others = few((evidence.alsoHeldBy ?? []).map((one) => one.replaceAll('-', ' ')), 5)
  return (passed === '' ? '' : `; it did not wait any longer for ${passed}, so it may read a mix`) +
    (others === '' ? '' : `; also held by ${others}`)
}

const STARTED: Readonly<Record<string, string>> = {
  manual: 'by hand',
  missing: 'because an output was never produced',
  'definition-changed': 'because its definition changed',
  'upstream-update': 'for another update',
  expired: 'because its freshness ran out',
  backfill: 'for a backfill',
  retry: 'after a failure',
}

const IGNORED: Readonly<Record<string, string>> = {
  unchanged: 'the data is the same as before',
  late: 'it came late: a later one is the current version',
  'does-not-trigger': 'its policy lets this input, or the expiry of this output, cause no run',
  baseline: 'it was taken as read when the definition was applied',
  'clock-reset': 'its freshness clock was reset',
  'up-to-date': 'the last success had read the same data',
  'policy-off': 'its autoMaterialize is switched off',
  'not-auto': 'it has no autoMaterialize block, so it runs only when asked to',
}

const PENDING: Readonly<Record<string, string>> = {
  unabsorbed: 'it was not read yet; is a materializer running?',
  due: 'it is about to be evaluated',
}

/** Return what an event did to a workflow, as half a sentence. The run and the newer event have links beside it. */
export function fateText(fate: EventFate): string {
  const reason = fate.reason ?? ''
  switch (fate.fate) {
    case 'triggered':
      return 'it started a run'
    case 'included':
      return reason === 'renewed' ? 'a run that was queued already was moved to it'
        : `it is in a run that was started ${STARTED[reason] ?? `for ${reason.replaceAll('-', ' ')}`}`
    case 'superseded':
      return fate.runId ? 'a newer change is read instead' : 'a newer change came before any run read it'
    case 'held': {
      const text = reasonText({ ...fate, outcome: reason === 'evaluation-failed' ? 'error' : 'hold', reason })
      const ended = fate.runStatus === 'failed' || fate.runStatus === 'canceled'
      return ended ? `${text}; its run ${fate.runStatus === 'failed' ? 'failed' : 'was canceled'}` : text
    }
    case 'ignored':
      return IGNORED[reason] ?? reason.replaceAll('-', ' ')
    case 'pending':
      return PENDING[reason] ?? reason.replaceAll('-', ' ')
    default:
      return reason.replaceAll('-', ' ')
  }
}
