import type { Conclusion } from '../../types'

/** What a decision waits for, as parameters of `/decisions`. */
export interface Above {
  readonly workflow?: string
  readonly asset?: string
  readonly partitionKey: string
}

/** Return what holds a decision from above; null if nothing above it does. Of several the first is followed. */
export function blockerOf(one: Conclusion): Above | null {
  if (one.outcome !== 'hold') return null
  const [blocker] = one.evidence.blockers ?? []
  if (blocker !== undefined) return { workflow: blocker.workflowSlug, partitionKey: blocker.partitionKey ?? '' }
  const [missing] = one.evidence.missing ?? []
  if (missing !== undefined) return reference(missing)
  if (one.reason === 'waiting-for-all') {
    const [other] = one.evidence.waitingFor ?? []
    return other === undefined ? null : reference(other)
  }
  return one.reason === 'input-too-old' && one.evidence.assetId ? reference(one.evidence.assetId) : null
}

/** Split `sales.daily@2024-01-31`. Ids of assets have no @. */
function reference(text: string): Above {
  const cut = text.indexOf('@')
  return cut < 0 ? { asset: text, partitionKey: '' } : { asset: text.slice(0, cut), partitionKey: text.slice(cut + 1) }
}
