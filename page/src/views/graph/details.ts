import { get, segment } from '../../api'
import type { Asset, Decision, Page } from '../../types'

/** What the card of an asset says beside its state. */
export interface Details {
  readonly asset: Asset
  readonly decision: Decision | null
}

const KEPT_MS = 5000
const MOST = 50
const kept = new Map<string, { at: number; details: Promise<Details> }>()

/** Read the details of an asset, at most once per few seconds: a pointer passes the same cells again and again. */
export function detailsOf(id: string): Promise<Details> {
  const known = kept.get(id)
  if (known !== undefined && Date.now() - known.at < KEPT_MS) return known.details
  const details = readDetails(id)
  details.catch(() => kept.delete(id))
  kept.set(id, { at: Date.now(), details })
  const oldest = kept.keys().next().value
  if (kept.size > MOST && oldest !== undefined) kept.delete(oldest)
  return details
}

/** Read the details of an asset now. */
export async function readDetails(id: string, stop?: AbortSignal): Promise<Details> {
  const path = `assets/${segment(id)}`
  const asset = await get<Asset>(path, {}, stop)
  if (asset.workflowSlug === null) return { asset, decision: null }
  const decisions = await get<Page<Decision>>(`${path}/why`, { limit: 1 }, stop)
  return { asset, decision: decisions.items[0] ?? null }
}

/** Return since when an asset is in its state, as far as it is known, and what happened then. */
export function sinceOf({ asset, decision }: Details): { word: string; at: string } | null {
  if (asset.state === 'stale' && asset.expired && asset.expiresAt !== null) return { word: 'expired', at: asset.expiresAt }
  const settled = asset.state === 'fresh' || asset.state === 'source'
  if (!settled && decision !== null) return { word: 'decided', at: decision.at }
  return asset.producedAt === null ? null : { word: settled ? 'produced' : 'last produced', at: asset.producedAt }
}
