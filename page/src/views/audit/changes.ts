import { cut } from '../../format'
import { href } from '../../router'
import type { AuditEntry, Json, JsonObject } from '../../types'

export interface Difference {
  readonly name: string
  /** null: there was nothing before. */
  readonly before: string | null
  readonly after: string
}

/** Return the values that differ. Of a new thing, all that it has. */
export function differences(before: JsonObject | null, after: JsonObject | null): Difference[] {
  const old = before ?? {}
  const names = [...new Set([...Object.keys(after ?? {}), ...(after === null ? Object.keys(old) : [])])]
  return names.flatMap((name) => {
    const was = text(old[name])
    const is = after === null ? 'removed' : text(after[name])
    if (was === is) return []
    return [{ name, before: before === null ? null : was, after: is }]
  })
}

function text(value: Json | undefined): string {
  if (value === null || value === undefined) return '–'
  return cut(typeof value === 'string' ? value : JSON.stringify(value), 200)
}

const OF_ASSETS = new Set(['report', 'expire', 'skip_delivery', 'rollback_table', 'relog_table'])
const OF_WORKFLOWS = new Set(['request_run', 'pause', 'resume', 'reset'])

/** Return the address of what was changed; null if it has no page, or none any more. */
export function subjectAt(entry: AuditEntry): string | null {
  const { what, subject } = entry
  const name = subject.split('@')[0] ?? subject
  if (OF_ASSETS.has(what)) return href(['assets', name])
  if (OF_WORKFLOWS.has(what)) return href(['workflows', name])
  if (what === 'cancel') return href(['runs', subject])
  if (what.startsWith('remove_')) return null
  if (what.endsWith('_webhook')) return href(['webhooks'], { webhook: subject })
  if (what.endsWith('_alert')) return href(['alerts'], { alert: subject })
  if (what.endsWith('_token')) return href(['tokens'])
  return what.endsWith('_backfill') && /^[0-9a-f-]{36}$/.test(subject) ? href(['backfills', subject]) : null
}
