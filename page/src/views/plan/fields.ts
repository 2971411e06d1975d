import type { Json, JsonObject } from '../../types'
import { DAYS, quietText, type Policy } from '../workflow/policy'
import { exact } from '../workflow/yaml'

/** A field of a policy that can be tried. Its text is in the address; the empty text leaves it as it is. */
export interface PolicyField {
  readonly name: string
  readonly label: string
  readonly group: 'When it runs' | 'How often' | 'Freshness of its outputs'
  readonly options?: readonly string[]
  readonly hint: string
  /** Return the value of the definition. */
  readonly now: (policy: Policy) => string
  /** Return what a text means, as a definition has it; null removes the field. Throw if it means nothing. */
  readonly parse: (text: string) => Json
}

const DURATION = /^(\d+(\.\d+)?(ms|s|m|h|d|w))+$/
const yes = (value: boolean): string => (value ? 'yes' : 'no')
const time = (ms: number | null): string => (ms === null || ms === 0 ? 'none' : exact(ms))

const flag = (text: string): boolean => {
  if (text !== 'yes' && text !== 'no') throw new Error('it must be yes or no')
  return text === 'yes'
}
/** `none` is the zero of a delay, and removes a field that has no zero. */
const duration = (none: Json) => (text: string): Json => {
  if (text === 'none') return none
  if (!DURATION.test(text)) throw new Error('write a duration such as 90s, 10m or 1h30m, or none')
  return text
}
const freshness = (name: string) => (policy: Policy): string => {
  const values = [...new Set(policy.outputs.map((one) => {
    const value = one.freshness?.[name]
    return typeof value === 'number' ? exact(value) : typeof value === 'string' ? value : 'none'
  }))]
  return values.length === 1 ? values[0]! : values.length === 0 ? 'none' : 'differs by output'
}

export const FIELDS: readonly PolicyField[] = [
  { name: 'enabled', label: 'Automatic', group: 'When it runs', options: ['yes', 'no'], hint: 'no: it runs only on request.', now: (policy) => yes(policy.automatic), parse: flag },
  { name: 'onUpstreamUpdate', label: 'Run on updates', group: 'When it runs', options: ['yes', 'no'], hint: 'Run when an input changes.', now: (policy) => yes(policy.onUpstreamUpdate), parse: flag },
  { name: 'when', label: 'Of which inputs', group: 'When it runs', options: ['any', 'all'], hint: 'all: when every input has a newer version.', now: (policy) => policy.when, parse: (text) => {
    if (text !== 'any' && text !== 'all') throw new Error('it must be any or all')
    return text
  } },
  { name: 'waitForUpstream', label: 'Wait for ancestors', group: 'When it runs', options: ['yes', 'no'], hint: 'Wait for ancestors in motion, so that a run reads one generation.', now: (policy) => yes(policy.waitForUpstream), parse: flag },
  { name: 'maxWait', label: 'At most', group: 'When it runs', hint: 'How long it waits for ancestors.', now: (policy) => exact(policy.maxWaitMs), parse: duration('0s') },
  { name: 'quietHours', label: 'Quiet hours', group: 'When it runs', hint: '22:00-06:00 sat,sun Europe/Berlin; several with ;', now: (policy) => (policy.quietHours.length === 0 ? 'none' : policy.quietHours.map(quietText).join('; ')), parse: parseQuiet },
  { name: 'debounce', label: 'Debounce', group: 'How often', hint: 'Run after the inputs did not change for this long.', now: (policy) => time(policy.debounceMs), parse: duration('0s') },
  { name: 'maxDelay', label: 'At most', group: 'How often', hint: 'The longest delay by debouncing.', now: (policy) => time(policy.maxDelayMs), parse: duration(null) },
  { name: 'minInterval', label: 'Minimum interval', group: 'How often', hint: 'Between the starts of two automatic runs.', now: (policy) => time(policy.minIntervalMs), parse: duration('0s') },
  { name: 'priority', label: 'Priority', group: 'How often', hint: 'Lower is more urgent.', now: (policy) => String(policy.priority), parse: (text) => {
    if (!/^\d{1,7}$/.test(text) || Number(text) > 1_000_000) throw new Error('write a number from 0 to 1000000')
    return Number(text)
  } },
  { name: 'ttl', label: 'Expires after', group: 'Freshness of its outputs', hint: 'This long after an output was produced.', now: freshness('ttlMs'), parse: duration(null) },
  { name: 'cadence', label: 'Expires every', group: 'Freshness of its outputs', hint: 'On a fixed grid of time.', now: freshness('cadenceMs'), parse: duration(null) },
  { name: 'cron', label: 'Expires at', group: 'Freshness of its outputs', hint: 'Minute, hour, day, month, weekday: 30 2 * * *', now: freshness('cron'), parse: (text) => {
    if (text === 'none') return null
    if (text.split(/\s+/).length !== 5) throw new Error('write five fields, such as 30 2 * * *')
    return text
  } },
  { name: 'timezone', label: 'Time zone', group: 'Freshness of its outputs', hint: 'Of the times above, such as Europe/Berlin.', now: freshness('timezone'), parse: (text) => (text === 'none' ? null : text) },
  { name: 'maxAge', label: 'Promised age', group: 'Freshness of its outputs', hint: 'Counts broken promises; it causes no run.', now: freshness('maxAgeMs'), parse: duration(null) },
]

/** Return quiet hours of a text such as `22:00-06:00 sat,sun Europe/Berlin`. */
export function parseQuiet(text: string): Json {
  if (text === 'none') return []
  return text.split(';').map((one) => {
    const found = /^(\d\d:\d\d)\s*[-–]\s*(\d\d:\d\d)((?:\s+[^\s]+)*)$/.exec(one.trim())
    if (found === null) throw new Error('write times such as 22:00-06:00 sat,sun Europe/Berlin, or none')
    const window: { from: string; to: string; days?: string[]; timezone?: string } = { from: found[1]!, to: found[2]! }
    for (const word of (found[3] ?? '').trim().split(/\s+/).filter(Boolean)) {
      const days = word.split(',').map((day) => day.toLowerCase())
      const known: readonly string[] = DAYS
      if (days.every((day) => known.includes(day))) window.days = days
      else if (word.includes('/') || word === 'UTC') window.timezone = word
      else throw new Error(`'${word}' is neither days such as sat,sun nor a time zone`)
    }
    return window
  })
}

/** The changes of policies that an address holds: `shop-totals.debounce=10m`. A slug has no dot. */
export type Changes = Readonly<Record<string, Readonly<Record<string, string>>>>

export function changesOf(query: Readonly<Record<string, string>>): Changes {
  const found: Record<string, Record<string, string>> = {}
  for (const [key, value] of Object.entries(query)) {
    const cut = key.indexOf('.')
    const name = key.slice(cut + 1)
    if (cut < 1 || value === '' || !FIELDS.some((field) => field.name === name)) continue
    const slug = key.slice(0, cut)
    found[slug] = { ...found[slug], [name]: value }
  }
  return found
}

export interface Question {
  readonly since: string
  readonly slots: number
  readonly seed: number
  readonly workflows: Readonly<Record<string, JsonObject>>
}

/** Return what is asked of the server, or what is wrong with which field. */
export function question(query: Readonly<Record<string, string>>): { question: Question; problems: Readonly<Record<string, string>> } {
  const problems: Record<string, string> = {}
  const workflows: Record<string, JsonObject> = {}
  for (const [slug, fields] of Object.entries(changesOf(query))) {
    const values: JsonObject = {}
    for (const [name, value] of Object.entries(fields)) {
      try {
        values[name] = FIELDS.find((field) => field.name === name)!.parse(value.trim())
      } catch (error) {
        problems[`${slug}.${name}`] = error instanceof Error ? error.message : String(error)
      }
    }
    workflows[slug] = values
  }
  const since = /^\d{1,4}[mhd]$/.test(query.since ?? '') ? query.since! : '7d'
  return { question: { since, slots: whole(query.slots, 4, 1), seed: whole(query.seed, 0, 0), workflows }, problems }
}

const whole = (text: string | undefined, usual: number, least: number): number =>
  (/^\d{1,6}$/.test(text ?? '') ? Math.max(least, Number(text)) : usual)
