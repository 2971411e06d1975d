import { get, segment } from '../api'
import type { AssetPartitions, PartitionRange } from '../types'

/** One page looks at 10,000 partitions, and has at most this many ranges. */
const PAGE = 1000
const MOST_PAGES = 40

/** Read the states of all partitions of an asset, page by page; `next` is not null if there are too many. */
export async function readPartitions(assetId: string, stop: AbortSignal): Promise<AssetPartitions> {
  let items: PartitionRange[] = []
  let after: string | null = null
  for (let pages = 1; ; pages += 1) {
    const found: AssetPartitions = await get<AssetPartitions>(`assets/${segment(assetId)}/partitions`, { limit: PAGE, after }, stop)
    items = joined(items, found.items)
    after = found.next
    if (after === null || pages === MOST_PAGES) return { ...found, items }
  }
}

/** A page may end within a range: its rest is the beginning of the next page. */
export function joined(before: readonly PartitionRange[], next: readonly PartitionRange[]): PartitionRange[] {
  const last = before.at(-1)
  const first = next[0]
  if (last === undefined || first === undefined || last.state !== first.state) return [...before, ...next]
  return [...before.slice(0, -1), { ...first, to: last.to, count: last.count + first.count }, ...next.slice(1)]
}
