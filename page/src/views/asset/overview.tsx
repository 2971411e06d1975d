import type { ComponentChildren } from 'preact'
import { get } from '../../api'
import { bytes, counted, rows, visible } from '../../format'
import { about, useLoad } from '../../load'
import { AssetLink, Body, Facts, Panel, RunLink, State, Time, WorkflowLink } from '../../parts/basics'
import { Version } from '../../parts/evidence'
import { href } from '../../router'
import { duration } from '../../time'
import type { AssetState, JsonObject, Page } from '../../types'
import type { AssetData } from './data'
import { lagOf } from './header'

/** What is known about an asset, and its neighbours with their states. */
export function Overview({ data }: { data: AssetData }) {
  const source = data.asset.workflowSlug === null
  return (
    <>
      <div class="columns">
        <Panel title="Now" note={data.asset.partitions === null ? undefined : 'of the newest partition'}><Facts items={nowFacts(data)} /></Panel>
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

type Items = (readonly [string, ComponentChildren] | null)[]

function nowFacts(data: AssetData): Items {
  const { asset, flow } = data
  const lag = lagOf(data)
  return [
    ['State', asset.partitions === null ? <State of={asset.state} /> : <>{counted(asset.partitions.total, 'partition')}, the newest is <code>{visible(asset.partitionKey)}</code></>],
    ['Version', asset.version === null ? 'never produced' : <><a href={href(['assets', asset.assetId], { tab: 'versions' })}>{asset.version}</a> <Version of={asset.dataVersion} /></>],
    asset.producedAt === null ? null : ['Produced', <><Time at={asset.producedAt} clock /> <span class="quiet">(<Time at={asset.producedAt} />)</span></>],
    lag?.ageMs == null ? null : ['Age', <span class="row">{duration(lag.ageMs)}{lag.maxAgeMs === null ? null : <> of at most {duration(lag.maxAgeMs)}{lag.overdue ? <State of="overdue" /> : null}</>}</span>],
    asset.expiresAt === null ? null : [asset.expired ? 'Expired' : 'Expires', <><Time at={asset.expiresAt} clock /> <span class="quiet">(<Time at={asset.expiresAt} />)</span></>],
    asset.rows === null && asset.bytes === null ? null : ['Rows', <>{rows(asset.rows)} <span class="quiet">{asset.bytes === null ? '' : bytes(asset.bytes)}</span></>],
    asset.runId === null ? null : ['Made by run', <RunLink id={asset.runId} />],
    flow?.inFlight ? ['In flight', <span class="row"><RunLink id={flow.inFlight} /> <State of={flow.inFlightStatus ?? 'queued'} /></span>] : null,
    asset.lastAutoRun === null ? null : ['Last automatic run', <span class="row"><RunLink id={asset.lastAutoRun.runId} /> <State of={asset.lastAutoRun.status} /> <Time at={asset.lastAutoRun.finishedAt} /></span>],
    asset.hold === null ? null : ['Held', <>{asset.hold.reason.replaceAll('-', ' ')}{asset.hold.blocker === null ? null : <> by {visible(asset.hold.blocker)}</>}{asset.hold.until === null ? null : <> until <Time at={asset.hold.until} clock /></>}</>],
  ]
}

function policyFacts(data: AssetData): Items {
  const { asset, flow, workflow } = data
  const breaker = flow?.breaker.state === 'open'
  return [
    ['Workflow', <><WorkflowLink slug={asset.workflowSlug ?? ''} /> <span class="quiet">version {workflow?.workflowVersion ?? flow?.workflowVersion ?? '–'}</span></>],
    ['Defined in', workflow?.sourceFile == null ? '–' : <code>{visible(workflow.sourceFile)}{workflow.sourceLine == null ? '' : `:${workflow.sourceLine}`}</code>],
    workflow === null ? null : ['Applied', <Time at={workflow.appliedAt} clock />],
    ['Automatic', flow?.automatic ? 'yes' : 'no: it runs only when asked to'],
    ['Freshness', policyText(asset.freshness) ?? 'no time at which it expires'],
    ['autoMaterialize', policyText(asset.autoMaterialize) ?? 'none'],
    flow === null || flow.paused === false ? null : ['Paused', <>since <Time at={flow.paused.since} clock />{flow.paused.until === null ? ', without an end' : <> until <Time at={flow.paused.until} clock /></>}</>],
    flow === null || flow.cooldown.failures === 0 ? null : ['Failures in a row', <>{flow.cooldown.failures}{flow.cooldown.nextEligibleAt === null ? null : <>; not again before <Time at={flow.cooldown.nextEligibleAt} clock /></>}</>],
    breaker ? ['Breaker', <>open since <Time at={flow.breaker.openedAt} clock /></>] : null,
    flow === null ? null : ['Runs avoided', <>{flow.runsAvoided} <span class="quiet">not needed, because an input was identical</span></>],
  ]
}

function declarationFacts({ asset }: AssetData): Items {
  const text = (name: string): string | null => (typeof asset.declaration[name] === 'string' ? visible(asset.declaration[name]) : null)
  const { watch } = asset.declaration
  return [
    ['Format', text('format') ?? 'only its changes are known'],
    text('path') === null ? null : ['Path', <code>{text('path')}</code>],
    text('mode') === null ? null : ['Mode', text('mode')],
    text('description') === null ? null : ['Description', text('description')],
    ['Watched', watch == null ? 'no: its changes are reported' : <a href={href(['sources'], { q: asset.assetId })}>yes</a>],
    ['Read by', asset.consumedBy.length === 0 ? 'nobody' : counted(asset.consumedBy.length, 'workflow')],
  ]
}

/** Return the fields of a policy in one line: `ttl 1d, max age 6h`. */
export function policyText(policy: JsonObject | null): string | null {
  if (policy === null) return null
  const parts = Object.entries(policy).flatMap(([name, value]) => {
    if (value === null || value === undefined) return []
    const label = name.replace(/Ms$/, '').replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
    if (name.endsWith('Ms') && typeof value === 'number') return [`${label} ${duration(value)}`]
    if (value === true) return [label]
    return [`${label} ${typeof value === 'object' ? JSON.stringify(value) : visible(String(value))}`]
  })
  return parts.length > 0 ? parts.join(', ') : null
}

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
          {({ states }) => above.length === 0 ? <p class="quiet">{asset.workflowSlug === null ? 'A source is made outside of Freshline.' : 'It reads no other asset.'}</p> : (
            <ul class="plain neighbours">
              {above.map((one) => <li key={one}><State of={states[one] ?? 'missing'} bare /> <AssetLink id={one} /> <span class="quiet">{states[one] ?? ''}</span></li>)}
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
                <li key={one.assetId}><State of={one.state} bare /> <AssetLink id={one.assetId} /> <span class="quiet">{one.state}, by {visible(slug)}</span></li>)))}
              {asset.consumedBy.length > MOST_WORKFLOWS ? <li class="quiet">and {asset.consumedBy.length - MOST_WORKFLOWS} more workflows; <a href={href(['graph'], { focus: asset.assetId })}>see the graph</a></li> : null}
            </ul>
          )}
        </Body>
      </Panel>
    </div>
  )
}
