import { counted, logText, named, version, words } from '../format'
import type { FreshlineEvent } from '../types'

/** Return the asset or workflow that an event is about, with its partition. */
export const eventSubject = (event: FreshlineEvent): string => {
  const key = event.data.partitionKey
  return named(event.subject, typeof key === 'string' ? key : null)
}

/** Return the part of an event's data that people look for, in a few words. */
export function eventText(event: FreshlineEvent): string {
  const { data, type } = event
  const text = (name: string): string | null => (typeof data[name] === 'string' && data[name] !== '' ? data[name] : null)
  const parts: string[] = []
  if (type === 'asset.produced') {
    parts.push(`${version(text('dataVersion'))}${data.changed === false ? ', identical to the version before' : ''}`)
    if (typeof data.rows === 'number') parts.push(counted(data.rows, 'row'))
    if (data.rolledBackTo !== undefined && data.rolledBackTo !== null) parts.push(`rolled back to version ${String(data.rolledBackTo)}`)
    if (data.runId === null || data.runId === undefined) parts.push('reported from outside')
  }
  const progress = data.progress
  if (type.startsWith('backfill.') && typeof progress === 'object' && progress !== null && !Array.isArray(progress)) {
    parts.push(`${String(progress.done)} of ${String(progress.total)} done`)
  }
  const error = data.error
  if (typeof error === 'object' && error !== null && !Array.isArray(error) && typeof error.message === 'string') {
    parts.push(error.message.split('\n')[0]!.slice(0, 300))
  }
  const trigger = data.trigger
  if (type === 'workflow.run.queued' && typeof trigger === 'object' && trigger !== null && !Array.isArray(trigger)) {
    parts.push(words(typeof trigger.reason === 'string' ? trigger.reason : String(trigger.type)))
  }
  const reason = text('reason')
  if (reason !== null) parts.push(words(reason))
  return logText(parts.join(', '))
}

/** Every type, and the beginnings that select several. */
export const EVENT_TYPES: readonly (readonly [string, string])[] = [
  ['', 'any'],
  ['asset', 'asset.…'], ['asset.produced', 'asset.produced'], ['asset.expired', 'asset.expired'], ['asset.overdue', 'asset.overdue'],
  ['asset.recovered', 'asset.recovered'], ['asset.partition.retired', 'asset.partition.retired'],
  ['workflow', 'workflow.…'], ['workflow.definition.updated', 'workflow.definition.updated'], ['workflow.run', 'workflow.run.…'],
  ['workflow.run.queued', 'workflow.run.queued'], ['workflow.run.started', 'workflow.run.started'],
  ['workflow.run.succeeded', 'workflow.run.succeeded'], ['workflow.run.failed', 'workflow.run.failed'],
  ['workflow.run.canceled', 'workflow.run.canceled'],
  ['materializer', 'materializer.breaker.…'],
  ['backfill', 'backfill.…'],
]
