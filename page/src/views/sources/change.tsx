import { count } from '../../format'
import { Time } from '../../parts/basics'
import type { Asset } from '../../types'

/** When a source was last reported; of one with partitions, how many of them were. */
export function LastChange({ asset }: { asset: Pick<Asset, 'producedAt' | 'partitions'> }) {
  const { partitions } = asset
  if (partitions !== null) {
    const reported = partitions.total - (partitions.counts.missing ?? 0)
    return <span class="nowrap">{count(reported)} of {count(partitions.total)} partitions</span>
  }
  return asset.producedAt === null ? <span class="quiet nowrap">never reported</span> : <Time at={asset.producedAt} />
}
