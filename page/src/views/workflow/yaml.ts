import type { Json, JsonObject } from '../../types'

/** The order in which docs/definitions.md lists the fields. Stored definitions have lost the order of their file. */
const ORDER = [
  'slug', 'description', 'parameters', 'quietHours', 'from', 'to', 'days', 'backoff', 'baseMs', 'maxMs', 'budget', 'probeMs', 'secrets', 'publishParameters', 'spark', 'pool', 'maxConcurrency',
  'steps', 'id', 'type', 'job', 'kind', 'entrypoint', 'sql', 'sqlFile', 'outputs', 'assetId', 'as', 'consumes', 'produces', 'dependsOn',
  'retry', 'timeoutMs', 'batch', 'freshness', 'ttlMs', 'cadenceMs', 'offsetMs', 'cron', 'timezone', 'maxAgeMs', 'autoMaterialize',
  'enabled', 'onUpstreamUpdate', 'when', 'onMissing', 'priority', 'waitForUpstream', 'maxWaitMs', 'debounceMs', 'maxDelayMs',
  'minIntervalMs', 'parameterDefaults', 'checks',
]
const RANK = new Map(ORDER.map((name, index) => [name, index]))
/** Blocks with names of users: their fields are neither sorted nor durations. */
const OPAQUE = new Set(['parameters', 'parameterDefaults', 'schema', 'conf', 'options', 'outputs', 'values'])
const UNITS = [['d', 86_400_000], ['h', 3_600_000], ['m', 60_000], ['s', 1000]] as const

/** Characters that YAML does not take as they are, or that no reader would see. */
const HIDDEN = /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/

/** Return a duration as a definition takes it: the largest unit that says it exactly, as in 90s or 36h. */
export function exact(ms: number): string {
  if (ms === 0) return '0s'
  for (const [unit, size] of UNITS) {
    if (ms % size === 0) return `${ms / size}${unit}`
  }
  return `${ms}ms`
}

/** Return a definition as YAML that `freshline validate` reads. Fields such as `ttlMs` are durations with a unit. */
export function toYaml(definition: JsonObject): string {
  return `${block(definition, 0, false).join('\n')}\n`
}

function block(value: JsonObject, depth: number, opaque: boolean): string[] {
  return entries(value, opaque).flatMap(([name, one]) => {
    const plain = opaque || !/.Ms$/.test(name) || typeof one !== 'number'
    const key = plain ? scalar(name) : name.slice(0, -2)
    return field(key, plain ? one : exact(one as number), depth, opaque || OPAQUE.has(name))
  })
}

function field(key: string, value: Json, depth: number, opaque: boolean): string[] {
  const pad = '  '.repeat(depth)
  if (typeof value === 'string' && value.includes('\n') && !/[^\S\n]\n|^\s|\n\n$|[\u0000-\u0009\u000b-\u001f]/.test(value) && !HIDDEN.test(value)) {
    const end = value.endsWith('\n') ? '|' : '|-'
    return [`${pad}${key}: ${end}`, ...value.replace(/\n$/, '').split('\n').map((line) => (line === '' ? '' : `${pad}  ${line}`))]
  }
  if (Array.isArray(value)) {
    if (value.every((one) => typeof one !== 'object' || one === null)) return [`${pad}${key}: ${flow(value)}`]
    return [`${pad}${key}:`, ...value.flatMap((one) => item(one, depth + 1, opaque))]
  }
  if (typeof value === 'object' && value !== null) {
    if (entries(value, opaque).length === 0) return [`${pad}${key}: {}`]
    const inline = small(value, opaque)
    return inline === null ? [`${pad}${key}:`, ...block(value, depth + 1, opaque)] : [`${pad}${key}: ${inline}`]
  }
  return [`${pad}${key}: ${scalar(value)}`]
}

function item(value: Json, depth: number, opaque: boolean): string[] {
  const pad = '  '.repeat(depth)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [`${pad}- ${flow(value)}`]
  const inline = small(value, opaque)
  if (inline !== null) return [`${pad}- ${inline}`]
  const lines = block(value, depth + 1, opaque)
  return [`${pad}- ${(lines[0] ?? '{}').trimStart()}`, ...lines.slice(1)]
}

/** Return a block in one line, if it is short and has nothing below it. */
function small(value: JsonObject, opaque: boolean): string | null {
  const fields = entries(value, opaque)
  const simple = fields.every(([, one]) => (typeof one !== 'object' || one === null || Array.isArray(one)) && !(typeof one === 'string' && one.includes('\n')))
  if (!simple || fields.length === 0) return null
  const parts = fields.map(([name, one]) => {
    const time = !opaque && /.Ms$/.test(name) && typeof one === 'number'
    return time ? `${name.slice(0, -2)}: ${exact(one)}` : `${scalar(name)}: ${flow(one)}`
  })
  const line = `{ ${parts.join(', ')} }`
  return line.length <= 100 ? line : null
}

function flow(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(flow).join(', ')}]`
  if (typeof value === 'object' && value !== null) {
    const parts = Object.entries(value).flatMap(([name, one]) => (one === undefined ? [] : [`${scalar(name)}: ${flow(one)}`]))
    return parts.length === 0 ? '{}' : `{ ${parts.join(', ')} }`
  }
  return scalar(value)
}

/** Return a scalar; a text with quotes unless nobody could read it as something else. JSON strings are YAML. */
function scalar(value: Exclude<Json, Json[] | object>): string {
  if (typeof value !== 'string') return String(value)
  const plain = /^[A-Za-z_]([\w ./+-]|:\w)*$/.test(value) && !/\s$/.test(value) && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(value)
  const time = /^\d+(ms|[smhdw])$/.test(value)
  return plain || time ? value : JSON.stringify(value).replace(new RegExp(HIDDEN, 'g'), (one) => `\\u${one.codePointAt(0)!.toString(16).padStart(4, '0')}`)
}

function entries(value: JsonObject, opaque: boolean): [string, Json][] {
  const found = Object.entries(value).filter((one): one is [string, Json] => one[1] !== undefined)
  if (opaque) return found
  const rank = (name: string): number => RANK.get(name) ?? ORDER.length
  return found.sort(([one], [other]) => rank(one) - rank(other) || (one < other ? -1 : 1))
}
