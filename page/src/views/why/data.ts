import { get, Problem } from '../../api'
import { about, useLoad, type Loaded } from '../../load'
import { serverTime } from '../../time'
import type { AssetPartitions, AssetState, Conclusion, Decision, Page, Status } from '../../types'
import { segment } from '../../api'
import { blockerOf, type Above } from './chain'

export interface WhyData {
  readonly name: string
  readonly status: Status
  /** The asset as it is now; null for a workflow. */
  readonly asset: AssetState | null
  /** The partition that is explained; empty without any. */
  readonly partitionKey: string
  /** The state of that partition as it is now; null if the asset has none. */
  readonly partitionState: string | null
  /** The last decision before the time; null if there was none. */
  readonly decision: Decision | null
  /** The decisions before it, the newest first, and those after it, the oldest first. */
  readonly before: readonly Decision[]
  readonly after: readonly Decision[]
  /** What holds it, what holds that, and so on: the last decisions at the same time. */
  readonly chain: readonly Decision[]
}

const BEFORE = 6
const AFTER_MS = 24 * 3_600_000
const MOST_STEPS = 8

/** Read why something was, or was not, produced at a time; now if it is empty. */
export function useWhy(id: string, at: string, partition: string): Loaded<WhyData> {
  const slugs = new Set<string>([id])
  const loaded = useLoad<WhyData>(`why ${id} ${at} ${partition}`, (stop) => read(id, at, partition, stop), {
    events: (event) => at === '' && about(...slugs)(event),
    // Without events about what is above it, its holds change silently.
    everyMs: at === '' ? 10_000 : undefined,
  })
  for (const one of loaded.data?.chain ?? []) slugs.add(one.workflowSlug)
  return loaded
}

async function read(id: string, at: string, partition: string, stop: AbortSignal): Promise<WhyData> {
  const status = await get<Status>('status', { name: id }, stop)
  serverTime(status.at)
  // A name may be of an asset or of a workflow; an asset takes precedence.
  const asset = status.assets.find((one) => one.assetId === id) ?? null
  const first = asset ?? status.assets[0] ?? null
  const key = partition || (first?.partitions ? first.partitionKey : '')
  const about = { ...(asset === null ? { workflow: id } : { asset: id }), partitionKey: key }
  const until = justAfter(at)
  const later = until === null ? null
    : { ...about, since: until, until: new Date(Date.parse(until) + AFTER_MS).toISOString(), limit: 100 }
  const [found, following, states] = await Promise.all([
    get<Page<Decision>>('decisions', { ...about, until, limit: BEFORE }, stop).catch(unknownPartition),
    later === null ? { items: [] } : get<Page<Decision>>('decisions', later, stop).catch(unknownPartition),
    first === null || key === '' ? null
      : get<AssetPartitions>(`assets/${segment(first.assetId)}/partitions`, { partitionKey: key, limit: 1 }, stop).catch(unknownPartition),
  ])
  const [decision = null, ...before] = found.items
  return {
    name: id, status, asset: first, partitionKey: key,
    partitionState: states === null ? null : states.items.length > 0 && 'counts' in states ? states.items[0]!.state : null,
    decision, before,
    after: following.items.slice(-3).reverse(),
    chain: decision === null ? [] : await climb(decision, until, stop),
  }
}

/** Decisions are selected by a time that they are before. A millisecond later, the one of that time is included. */
export function justAfter(at: string): string | null {
  const time = Date.parse(at)
  return Number.isNaN(time) ? null : new Date(time + 1).toISOString()
}

function unknownPartition(error: unknown): { items: never[] } {
  if (error instanceof Problem && error.status === 422) return { items: [] }
  throw error
}

/** Follow what each decision waits for, until one waits for nothing that is decided about. */
async function climb(from: Conclusion, until: string | null, stop: AbortSignal): Promise<Decision[]> {
  const found: Decision[] = []
  const seen = new Set([unit(from)])
  for (let above = blockerOf(from); above !== null && found.length < MOST_STEPS; above = blockerOf(found.at(-1)!)) {
    const next = await lastDecision(above, until, stop)
    if (next === null || seen.has(unit(next))) return found
    seen.add(unit(next))
    found.push(next)
  }
  return found
}

const unit = (one: Conclusion): string => `${one.workflowSlug}@${one.partitionKey}`

async function lastDecision(above: Above, until: string | null, stop: AbortSignal): Promise<Decision | null> {
  const page = await get<Page<Decision>>('decisions', { ...above, until, limit: 1 }, stop).catch((error: unknown) => {
    // A source has no decisions, and a partition may not exist any more.
    if (error instanceof Problem && (error.status === 404 || error.status === 422)) return { items: [] }
    throw error
  })
  return page.items[0] ?? null
}
