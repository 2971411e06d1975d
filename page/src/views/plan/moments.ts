import { named } from '../../format'
import type { Plan, PlannedHold, PlannedRun } from '../../types'

/** A moment of a plan: what would run then, and which holds would end. `at` null: at once. */
export interface Moment {
  readonly at: string | null
  readonly runs: readonly PlannedRun[]
  readonly ends: readonly PlannedHold[]
}

export interface Course {
  readonly moments: readonly Moment[]
  /** Holds without a known end. */
  readonly open: readonly PlannedHold[]
}

/** Put runs and ends of holds in the order of time. The order of the runs of one moment is that of the plan. */
export function course(plan: Plan): Course {
  const found = new Map<string | null, { runs: PlannedRun[]; ends: PlannedHold[] }>()
  const of = (at: string | null): { runs: PlannedRun[]; ends: PlannedHold[] } => {
    const known = found.get(at)
    if (known !== undefined) return known
    const made = { runs: [], ends: [] }
    found.set(at, made)
    return made
  }
  for (const run of plan.runs) of(run.notBefore).runs.push(run)
  for (const hold of plan.held) if (hold.until !== null) of(hold.until).ends.push(hold)
  const time = (at: string | null): number => (at === null ? -Infinity : Date.parse(at))
  const moments = [...found].sort(([one], [other]) => time(one) - time(other)).map(([at, what]) => ({ at, ...what }))
  return { moments, open: plan.held.filter((hold) => hold.until === null) }
}

/** Return where moments lie between now and the last one: 0 to 1. The scale is logarithmic: seconds beside days. */
export function positions(moments: readonly Moment[], now: number): number[] {
  const after = moments.map((one) => (one.at === null ? 0 : Math.max(0, Date.parse(one.at) - now)))
  const scaled = after.map((ms) => Math.log1p(ms / 10_000))
  const most = Math.max(...scaled, 0)
  return scaled.map((one) => (most === 0 ? 0 : one / most))
}

/** Return which places have room for a label: the first, the last, and those between that are far enough apart. */
export function labelled(places: readonly number[]): boolean[] {
  const room = 0.2
  let last = -1
  return places.map((place, index) => {
    const end = index === places.length - 1
    const fits = end || (place - last >= room && (1 - place >= room || places.at(-1) === place))
    if (fits) last = place
    return index === 0 || fits
  })
}

/** Say what a plan comes to. */
export function planSentence(plan: Plan, partition = ''): string {
  const workflows = new Set(plan.runs.map((run) => run.workflowSlug)).size
  const later = plan.runs.filter((run) => run.notBefore !== null).length
  if (plan.runs.length + plan.held.length + plan.cut.length === 0) return `No workflow reads ${plan.assetId}, so nothing would run.`
  const runs = plan.runs.length === 0 ? 'nothing would run at once'
    : `${plan.runs.length === 1 ? '1 run' : `${plan.runs.length} runs`} of ${workflows === 1 ? '1 workflow' : `${workflows} workflows`} would follow`
  const wait = later === 0 || later === plan.runs.length ? '' : `, ${later} of them later`
  const held = plan.held.length === 0 ? '' : `; ${plan.held.length} ${plan.held.length === 1 ? 'workflow is' : 'workflows are'} held`
  const cut = plan.cut.length === 0 ? '' : `; ${plan.cut.length} ${plan.cut.length === 1 ? 'does' : 'do'} not run by ${plan.cut.length === 1 ? 'itself' : 'themselves'}`
  return `If ${named(plan.assetId, partition)} changed now, ${runs}${wait}${held}${cut}.`
}
