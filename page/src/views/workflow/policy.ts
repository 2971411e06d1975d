import { list } from '../../format'
import type { Json, JsonObject } from '../../types'
import { exact } from './yaml'

/** The policy of a workflow, merged from the blocks of its outputs (docs/policies.md). */
export interface Policy {
  /** Whether any output has a block, and whether one of them is on. */
  readonly declared: boolean
  readonly automatic: boolean
  readonly onUpstreamUpdate: boolean
  readonly onMissing: boolean
  readonly when: string
  readonly priority: number
  readonly debounceMs: number
  readonly maxDelayMs: number | null
  readonly minIntervalMs: number
  readonly waitForUpstream: boolean
  readonly maxWaitMs: number
  readonly quietHours: readonly QuietHours[]
  readonly backoff: JsonObject
  readonly inputs: readonly { readonly assetId: string; readonly triggers: boolean; readonly maxAgeMs: number | null }[]
  readonly outputs: readonly { readonly assetId: string; readonly freshness: JsonObject | null }[]
}

export interface QuietHours {
  readonly from: string
  readonly to: string
  readonly days: readonly string[]
  readonly timezone: string
}

export const DAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
export const objects = (value: Json | undefined): JsonObject[] => (Array.isArray(value) ? value.filter(isObject) : [])
export const text = (value: Json | undefined): string | null => (typeof value === 'string' ? value : null)
export const number = (value: Json | undefined): number | null => (typeof value === 'number' ? value : null)
const object = (value: Json | undefined): JsonObject => (isObject(value) ? value : {})

export function policyOf(definition: JsonObject): Policy {
  const steps = objects(definition.steps)
  const outputs = steps.flatMap((step) => objects(step.produces))
  const blocks = outputs.map((one) => one.autoMaterialize).filter(isObject)
  const on = blocks.filter((block) => block.enabled !== false)
  // The fields below must agree where they are stated, so the first one is that of all.
  const agreed = (name: string): Json | undefined => on.find((block) => block[name] !== undefined && block[name] !== null)?.[name]
  const updates = on.some((block) => block.onUpstreamUpdate === true)
  const inputs = inputsOf(steps, new Set(outputs.map((one) => text(one.assetId))), updates)
  const asked = steps.flatMap((step) => objects(step.consumes)).some((one) => stated(one) !== null)
  return {
    declared: blocks.length > 0 || asked,
    automatic: on.length > 0 || asked,
    onUpstreamUpdate: updates,
    onMissing: on.some((block) => block.onMissing !== false),
    when: text(agreed('when')) ?? 'any',
    priority: Math.min(...on.map((block) => number(block.priority) ?? 100), on.length === 0 ? 100 : Infinity),
    debounceMs: number(agreed('debounceMs')) ?? 0,
    maxDelayMs: number(agreed('maxDelayMs')),
    minIntervalMs: number(agreed('minIntervalMs')) ?? 0,
    waitForUpstream: agreed('waitForUpstream') !== false,
    maxWaitMs: number(agreed('maxWaitMs')) ?? 3_600_000,
    quietHours: objects(definition.quietHours).map(quiet),
    backoff: object(definition.backoff),
    inputs,
    outputs: outputs.map((one) => ({ assetId: text(one.assetId) ?? '', freshness: isObject(one.freshness) ? one.freshness : null })),
  }
}

function stated(input: JsonObject): boolean | null {
  const value = object(input.autoMaterialize).onUpstreamUpdate
  return typeof value === 'boolean' ? value : null
}

/** What comes from outside of the workflow. An input that several steps read is one. */
function inputsOf(steps: readonly JsonObject[], own: ReadonlySet<string | null>, updates: boolean): Policy['inputs'] {
  const found = new Map<string, { assetId: string; triggers: boolean; maxAgeMs: number | null }>()
  for (const one of steps.flatMap((step) => objects(step.consumes))) {
    const assetId = text(one.assetId) ?? ''
    if (own.has(assetId)) continue
    const before = found.get(assetId)
    const maxAge = number(object(one.freshness).maxAgeMs)
    const ages = [before?.maxAgeMs ?? null, maxAge].filter((age): age is number => age !== null)
    found.set(assetId, {
      assetId,
      triggers: stated(one) ?? before?.triggers ?? updates,
      maxAgeMs: ages.length === 0 ? null : Math.min(...ages),
    })
  }
  return [...found.values()]
}

function quiet(one: JsonObject): QuietHours {
  const days = Array.isArray(one.days) ? one.days.filter((day): day is string => typeof day === 'string') : [...DAYS]
  return { from: text(one.from) ?? '', to: text(one.to) ?? '', days, timezone: text(one.timezone) ?? 'UTC' }
}

/** A line of the policy: its name, a sentence, and whether the sentence is about the default. */
export type Fact = readonly [name: string, sentence: string, usual: boolean]

export function facts(policy: Policy, definition: JsonObject): Fact[] {
  if (!policy.automatic) {
    const why = policy.declared ? 'all its autoMaterialize blocks are off' : 'it has no autoMaterialize block'
    return [['runs', `only on request: ${why}`, false], ...always(policy, definition)]
  }
  const { debounceMs, maxDelayMs, minIntervalMs } = policy
  return [
    ['updates', updates(policy), false],
    ['missing output', policy.onMissing ? 'run when an output was never produced' : 'wait for the first change of an input', policy.onMissing],
    ['debounce', debounceMs === 0 ? 'none: run at once'
      : `run when the inputs did not change for ${exact(debounceMs)}${maxDelayMs === null ? '' : `, at most ${exact(maxDelayMs)} after the first change`}`, debounceMs === 0],
    ['minimum interval', minIntervalMs === 0 ? 'none' : `at least ${exact(minIntervalMs)} between the starts of two automatic runs`, minIntervalMs === 0],
    ['ancestors', policy.waitForUpstream ? `wait up to ${exact(policy.maxWaitMs)} for ancestors in motion, to read one generation`
      : 'do not wait: runs may read a mix of generations', policy.waitForUpstream && policy.maxWaitMs === 3_600_000],
    ['priority', `${policy.priority} (lower is more urgent)`, policy.priority === 100],
    ...always(policy, definition),
  ]
}

function updates(policy: Policy): string {
  const triggers = policy.inputs.filter((one) => one.triggers)
  if (policy.inputs.length === 0) return 'it has no inputs from outside'
  if (triggers.length === 0) return 'a change of an input causes no run'
  const others = policy.inputs.filter((one) => !one.triggers).map((one) => one.assetId)
  const when = triggers.length === 1 ? `run when ${triggers[0]!.assetId} changes`
    : policy.when === 'all' ? `run when all of its ${triggers.length} inputs are newer and one differs`
    : 'run when an input changes'
  return others.length === 0 ? when : `${when}; ${list(others)} ${others.length === 1 ? 'is' : 'are'} read but cause${others.length === 1 ? 's' : ''} none`
}

function always(policy: Policy, definition: JsonObject): Fact[] {
  const limited = policy.inputs.filter((one) => one.maxAgeMs !== null)
  const { backoff } = policy
  const budget = number(backoff.budget) ?? 5
  const base = number(backoff.baseMs)
  const most = number(backoff.maxMs)
  const pool = text(definition.pool)
  const concurrency = number(definition.maxConcurrency)
  return [
    ...limited.map((one): Fact => ['input age', `hold runs while ${one.assetId} is older than ${exact(one.maxAgeMs!)}`, false]),
    ['quiet hours', policy.quietHours.length === 0 ? 'none' : policy.quietHours.map(quietText).join('; '), policy.quietHours.length === 0],
    ['after failures', `cool down${base === null ? '' : ` ${exact(base)}, twice as long after each further one`}${most === null ? '' : `, at most ${exact(most)}`}; after ${budget} in a row the breaker opens`, Object.keys(backoff).length === 0],
    ...(pool === null ? [] : [['pool', `takes a slot of ${pool}`, false] as Fact]),
    ...(concurrency === null ? [] : [['concurrency', `at most ${concurrency} runs at a time`, false] as Fact]),
  ]
}

export function quietText(one: QuietHours): string {
  const days = one.days.length === DAYS.length ? 'every day' : one.days.join(', ')
  return `${one.from}–${one.to} ${days} (${one.timezone})`
}
