import { get } from '../../api'
import { counted, visible } from '../../format'
import { about, useLoad } from '../../load'
import { AssetLink, Body, Facts, Panel, State } from '../../parts/basics'
import { href } from '../../router'
import type { AssetState, Page } from '../../types'
import type { AssetData } from './data'
import { declarationFacts, nowFacts, policyFacts } from './facts'
import { partitionFacts } from './partition-facts'

/** What is known about an asset, and its neighbours with their states. */
export function Overview({ data }: { data: AssetData }) {
  const source = data.asset.workflowSlug === null
  return (
    <>
      <div class="columns">
        {data.shown === null ? <Panel title="Now"><Facts items={nowFacts(data)} /></Panel> : (
          <Panel title="Now" note={data.partition === null ? 'of the newest partition' : 'of this partition'}><Facts items={partitionFacts(data)} /></Panel>
        )}
        {source ? <Panel title="Declaration"><Facts items={declarationFacts(data)} /></Panel>
          : <Panel title="Definition and policy"><Facts items={policyFacts(data)} /></Panel>}
      </div>
      <Neighbours data={data} />
      <details class="panel asset-definition">
        <summary>{source ? 'The source as declared' : 'The asset as declared by its workflow'}</summary>
        <pre class="box">{visibleLines(JSON.stringify(data.asset.declaration, null, 2))}</pre>
      </details>
    </>
  )
}

/** Return a text of several lines with its control characters visible. */
const visibleLines = (text: string): string => text.split('\n').map(visible).join('\n')

const MOST_WORKFLOWS = 12

interface AssetStates {
  readonly states: Readonly<Record<string, string>>
}

interface Near {
  readonly states: Readonly<Record<string, string>>
  readonly below: readonly { readonly slug: string; readonly assets: readonly AssetState[] }[]
}

/** What it is made from and what is made from it, one step away, with states. */
function Neighbours({ data }: { data: AssetData }) {
  const { asset, workflow } = data
  const above = workflow?.consumes ?? []
  const slugs = asset.consumedBy.slice(0, MOST_WORKFLOWS)
  const near = useLoad<Near>(`near ${asset.assetId} ${above.join('|')} ${slugs.join('|')}`, async (stop) => {
    const [states, below] = await Promise.all([
      above.length === 0 ? {} : get<AssetStates>('assets/states', { asset: above.slice(0, 200) }, stop).then((found) => found.states),
      Promise.all(slugs.map(async (slug) => ({
        slug, assets: (await get<Page<AssetState>>('assets', { workflow: slug, limit: 20 }, stop)).items,
      }))),
    ])
    return { states, below }
  }, { events: about(...above, ...slugs), everyMs: 20_000 })
  return (
    <div class="columns">
      <Panel title="Made from" note={above.length === 0 ? undefined : counted(above.length, 'asset')}>
        <Body from={near}>
          {({ states }) => above.length === 0 ? (
            <p class="quiet">{asset.workflowSlug === null ? 'A source is made outside of Freshline.' : 'It reads no other asset.'}</p>
          ) : (
            <ul class="plain neighbours">
              {above.map((one) => <Neighbour key={one} id={one} state={states[one]} />)}
            </ul>
          )}
        </Body>
      </Panel>
      <Panel title="Used for" note={asset.consumedBy.length === 0 ? undefined : counted(asset.consumedBy.length, 'workflow')}
        actions={<a class="button small" href={href(['plan'], { asset: asset.assetId })}>What would run?</a>}>
        <Body from={near}>
          {({ below }) => below.length === 0 ? <p class="quiet">No workflow reads it.</p> : (
            <ul class="plain neighbours">
              {below.flatMap(({ slug, assets }) => assets.map((one) => (
                <Neighbour key={one.assetId} id={one.assetId} state={one.state} by={slug} />)))}
              {asset.consumedBy.length > MOST_WORKFLOWS ? (
                <li class="quiet">
                  and {asset.consumedBy.length - MOST_WORKFLOWS} more workflows;{' '}
                  <a href={href(['graph'], { focus: asset.assetId })}>see the graph</a>
                </li>
              ) : null}
            </ul>
          )}
        </Body>
      </Panel>
    </div>
  )
}

/** A neighbour with its state. Without one the asset is not known here: another project may own it. */
function Neighbour({ id, state, by }: { id: string; state: string | undefined; by?: string }) {
  return (
    <li>
      {state === undefined ? null : <State of={state} bare />} <AssetLink id={id} />{' '}
      <span class="quiet">{state ?? 'unknown'}{by === undefined ? null : <>, by {visible(by)}</>}</span>
    </li>
  )
}
