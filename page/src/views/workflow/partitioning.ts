import { count, counted, few } from '../../format'
import type { JsonObject } from '../../types'
import { isObject, number, objects, text, type Fact } from './policy'
import { exact } from './yaml'

/** Return which partitions there are: one for each day since 2025-12-01. */
export function partitioningText(declared: JsonObject): string {
  const { keys, dynamic, dimensions } = declared
  const time = text(declared.time)
  if (time !== null) return timeText(time, declared)
  if (Array.isArray(keys)) return `${counted(keys.length, 'key')}: ${few(keys.map(String), 5)}`
  if (dynamic !== undefined && dynamic !== null) {
    const limit = isObject(dynamic) ? number(dynamic.limit) : null
    return `keys that appear${limit === null ? '' : `, at most ${count(limit)}`}`
  }
  if (!isObject(dimensions)) return 'yes'
  return Object.entries(dimensions).flatMap(([name, one]) => (isObject(one) ? [`${name}: ${partitioningText(one)}`] : [])).join('; ')
}

function timeText(time: string, declared: JsonObject): string {
  const [start, end, zone] = [text(declared.start), text(declared.end), text(declared.timezone)]
  const where = zone === null || zone === 'UTC' ? '' : ` (${zone})`
  const span = `${start === null ? '' : ` since ${start}`}${end === null ? '' : ` until ${end}`}`
  return `one for each ${time}${span}${where}${declared.open === true ? ', the running one too' : ''}`
}

/** Return the lines of a policy that are about partitions; none of a workflow without any. */
export function partitionFacts(definition: JsonObject): Fact[] {
  const outputs = objects(definition.steps).flatMap((step) => objects(step.produces))
  const declared = outputs.map((one) => one.partitioning).find(isObject)
  if (declared === undefined) return []
  const stated = (name: string): number | null => outputs.map((one) => number(one[name])).find((one) => one !== null) ?? null
  const [retain, frozen] = [stated('retainMs'), stated('frozenAfterMs')]
  return [
    ['partitions', partitioningText(declared), false],
    ...oldPartitions(outputs),
    ...(frozen === null ? [] : [['frozen', `not run automatically ${exact(frozen)} after the end of their window`, false] as Fact]),
    ...(retain === null ? [] : [['retained', `removed ${exact(retain)} after the end of their window`, false] as Fact]),
  ]
}

/** How many old partitions run by themselves, and what becomes of more. */
function oldPartitions(outputs: readonly JsonObject[]): Fact[] {
  const blocks = outputs.map((one) => one.autoMaterialize).filter(isObject).filter((one) => one.enabled !== false)
  if (blocks.length === 0) return []
  const block = blocks.map((one) => one.partitions).find(isObject)
  const limit = number(block?.limit) ?? 100
  const ignored = text(block?.beyond) === 'ignore'
  const more = ignored ? 'more are ignored' : 'more are proposed as a backfill'
  return [['old partitions', `up to ${count(limit)} in 24 hours run without an approval; ${more}`, limit === 100 && !ignored]]
}
