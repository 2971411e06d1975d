import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { get } from '../../api'
import { useLoad } from '../../load'
import { stream } from '../../stream'
import { serverTime } from '../../time'
import type { Asset, FreshlineEvent, Page, Run } from '../../types'
import { usePace } from './pace'
import { detail, type Detail } from './rows'

/** The answer of `/assets/states`: every name with its state, small enough for 10,000 assets. */
interface States {
  readonly at: string
  readonly states: Readonly<Record<string, string>>
}

export interface Assets {
  readonly states: Readonly<Record<string, string>> | null
  readonly details: ReadonlyMap<string, Detail>
  /** The active run of each workflow that has one. */
  readonly active: ReadonlyMap<string, { readonly id: string; readonly status: string }>
  readonly complete: boolean
  readonly error: unknown
  readonly reload: () => void
}

const PAGE = 1000

const matters = (event: FreshlineEvent): boolean =>
  /^(asset\.|workflow\.|materializer\.breaker|backfill\.)/.test(event.type)

/**
 * Read all assets: names and states first, in one small answer; then ages, promises and holds, page by page.
 *
 * `/status` has all of this in one answer too, but that takes ten times as long before anything can be shown.
 */
export function useAssets(): Assets {
  const paced = usePace()
  const states = useLoad('assets', (stop) => paced('states', stop, async () => {
    const found = await get<States>('assets/states', {}, stop)
    serverTime(found.at)
    return found.states
  }), { events: matters, everyMs: 30_000 })

  const details = useSignal<ReadonlyMap<string, Detail>>(new Map())
  const pages = useLoad('details', (stop) => paced('details', stop, () => readDetails(stop, (found) => {
    if (!stop.aborted) details.value = found
  }, details.peek())), { events: matters, everyMs: 60_000, enabled: states.data !== null })

  // The age is right at once: an event says when an asset was produced.
  useEffect(() => stream().subscribe((events) => {
    // Of partitions the newest counts, and an event may be about any.
    const produced = events.filter((one) =>
      one.type === 'asset.produced' && details.peek().get(one.subject)?.partitions === null)
    if (produced.length === 0) return
    const next = new Map(details.peek())
    for (const one of produced) {
      const known = next.get(one.subject)!
      next.set(one.subject, { ...known, producedAt: one.time })
    }
    details.value = next
  }), [])

  const active = useLoad('active', async (stop) => {
    const found = await get<Page<Run>>('runs', { status: 'running', limit: PAGE }, stop)
    return new Map(found.items.map((run) => [run.workflowSlug, { id: run.id, status: run.status }]))
  }, { events: (event) => event.type.startsWith('workflow.run.'), everyMs: 60_000 })

  return {
    states: states.data,
    details: details.value,
    active: active.data ?? new Map(),
    complete: pages.data !== null,
    error: states.error ?? pages.error,
    reload: () => {
      states.reload()
      pages.reload()
    },
  }
}

async function readDetails(
  stop: AbortSignal, show: (found: ReadonlyMap<string, Detail>) => void, before: ReadonlyMap<string, Detail>,
): Promise<number> {
  const found = new Map<string, Detail>()
  let after: string | null = null
  do {
    const page: Page<Asset> = await get<Page<Asset>>('assets', { limit: PAGE, after }, stop)
    for (const one of page.items) found.set(one.assetId, detail(one))
    after = page.next
    // The first time each page is shown as it comes. Later ones replace all at once, so that nothing disappears.
    if (before.size === 0) show(new Map(found))
  } while (after !== null)
  show(found)
  return found.size
}
