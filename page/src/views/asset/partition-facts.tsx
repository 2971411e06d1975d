import type { ComponentChildren } from 'preact'
import { bytes, rows, visible } from '../../format'
import { RunLink, State, Time } from '../../parts/basics'
import { Version } from '../../parts/evidence'
import { href } from '../../router'
import type { AssetData } from './data'

type Fact = readonly [string, ComponentChildren] | null

/** What is known about one partition now: the named one, else the newest. */
export function partitionFacts({ asset, shown }: AssetData): Fact[] {
  if (shown === null) return []
  const { key, state, head } = shown
  const slug = asset.workflowSlug
  return [
    ['Partition', <code>{visible(key)}</code>],
    ['State', state === null ? 'it does not exist' : <State of={state} />],
    ['Version', head === null ? (slug === null ? 'never reported' : 'never produced')
      : <><a href={href(['assets', asset.assetId], { partition: key, tab: 'versions' })}>{head.version}</a> <Version of={head.dataVersion} /></>],
    head === null ? null : [slug === null ? 'Reported' : 'Produced', <><Time at={head.producedAt} clock /> <span class="quiet">(<Time at={head.producedAt} />)</span></>],
    head?.goneAt ? ['Removed', <Time at={head.goneAt} clock />] : null,
    head?.expiresAt ? ['Expires', <Time at={head.expiresAt} clock />] : null,
    head === null || (head.rows === null && head.bytes === null) ? null
      : ['Rows', <>{rows(head.rows)} <span class="quiet">{head.bytes === null ? '' : bytes(head.bytes)}</span></>],
    head?.runId ? ['Made by run', <RunLink id={head.runId} />] : null,
    slug === null ? null : ['Runs', <a href={href(['runs'], { workflow: slug, partition: key })}>those of this partition</a>],
  ]
}
