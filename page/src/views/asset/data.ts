import { get, Problem, segment } from '../../api'
import { about, useLoad, type Loaded } from '../../load'
import { serverTime } from '../../time'
import type { Asset, AssetPartitions, Decision, Page, PolicyStatus, Snapshot, Status, Workflow, WorkflowState } from '../../types'

/** Everything that the frame of the view needs: the asset, its workflow, and why it is in its state. */
export interface AssetData {
  readonly asset: Asset
  readonly status: Status
  readonly flow: WorkflowState | null
  readonly workflow: Workflow | null
  readonly policy: PolicyStatus | null
  /** The last decision about it, or about the named partition; null for a source. */
  readonly decision: Decision | null
  /** The state of the named partition, if it exists. */
  readonly partition: { readonly key: string; readonly state: string | null } | null
  /** The named partition, else the newest, with its current version; null for an asset without partitions. */
  readonly shown: { readonly key: string; readonly state: string | null; readonly head: Snapshot | null } | null
}

export function useAsset(id: string, partition: string): Loaded<AssetData> {
  const slugs = new Set<string>([id])
  const loaded = useLoad<AssetData>(`asset ${id} ${partition}`, async (stop) => {
    const path = `assets/${segment(id)}`
    const [asset, status] = await Promise.all([get<Asset>(path, {}, stop), get<Status>('status', { name: id }, stop)])
    serverTime(status.at)
    const slug = asset.workflowSlug
    const key = partition || (asset.partitions === null ? '' : asset.partitionKey)
    const [workflow, policy, decisions, found, versions] = await Promise.all([
      slug === null ? null : get<Workflow>(`workflows/${segment(slug)}`, {}, stop),
      slug === null ? null : get<PolicyStatus>(`workflows/${segment(slug)}/auto-materialize`, {}, stop).catch(absent),
      slug === null ? null : get<Page<Decision>>(`${path}/why`, { limit: 1, partitionKey: key }, stop).catch(absent),
      key === '' ? null : get<AssetPartitions>(`${path}/partitions`, { partitionKey: key, limit: 1 }, stop).catch(absent),
      key === '' ? null : get<Page<Snapshot>>(`${path}/history`, { partitionKey: key, limit: 1 }, stop).catch(absent),
    ])
    const state = found?.items[0]?.state ?? null
    return {
      asset, status, flow: status.workflows[0] ?? null, workflow, policy,
      decision: decisions?.items[0] ?? null,
      partition: partition === '' ? null : { key: partition, state },
      shown: asset.partitions === null || key === '' ? null : { key, state, head: versions?.items[0] ?? null },
    }
  }, { events: (event) => about(...slugs)(event), everyMs: 15_000 })
  const slug = loaded.data?.asset.workflowSlug
  if (slug) slugs.add(slug)
  return loaded
}

/** A workflow that was retired, or a partition that does not exist: the rest is shown. */
function absent(error: unknown): null {
  if (error instanceof Problem && (error.status === 404 || error.status === 422)) return null
  throw error
}
