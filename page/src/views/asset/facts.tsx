import type { ComponentChildren } from 'preact'
import { bytes, counted, rows, visible, words } from '../../format'
import { RunLink, State, Time, WorkflowLink } from '../../parts/basics'
import { Version } from '../../parts/evidence'
import { href } from '../../router'
import { duration } from '../../time'
import type { AssetState, JsonObject } from '../../types'
import type { AssetData } from './data'
import { partitioningText } from '../workflow/partitioning'
import { isObject } from '../workflow/policy'
import { lagOf } from './header'

type Fact = readonly [string, ComponentChildren] | null

/** What is known about an asset without partitions now. */
export function nowFacts(data: AssetData): Fact[] {
  const { asset, flow } = data
  const last = asset.lastAutoRun
  return [
    ['State', <State of={asset.state} />],
    ['Version', <CurrentVersion asset={asset} />],
    asset.producedAt === null ? null : ['Produced', <When at={asset.producedAt} />],
    ageFact(data),
    asset.expiresAt === null ? null : [asset.expired ? 'Expired' : 'Expires', <When at={asset.expiresAt} />],
    asset.rows === null && asset.bytes === null ? null
      : ['Rows', <>{rows(asset.rows)} <span class="quiet">{asset.bytes === null ? '' : bytes(asset.bytes)}</span></>],
    asset.runId === null ? null : ['Made by run', <RunLink id={asset.runId} />],
    flow?.inFlight ? ['In flight', <RunState id={flow.inFlight} status={flow.inFlightStatus ?? 'queued'} />] : null,
    last === null ? null : ['Last automatic run', <RunState id={last.runId} status={last.status} at={last.finishedAt} />],
    asset.hold === null ? null : ['Held', (
      <>
        {words(asset.hold.reason)}
        {asset.hold.blocker === null ? null : <> by {visible(asset.hold.blocker)}</>}
        {asset.hold.until === null ? null : <> until <Time at={asset.hold.until} clock /></>}
      </>
    )],
  ]
}

/** A time with its age. */
function When({ at }: { at: string }) {
  return <><Time at={at} clock /> <span class="quiet">(<Time at={at} />)</span></>
}

function RunState({ id, status, at = null }: { id: string; status: string; at?: string | null }) {
  return <span class="row"><RunLink id={id} /> <State of={status} /> {at === null ? null : <Time at={at} />}</span>
}

function CurrentVersion({ asset }: { asset: AssetState }) {
  if (asset.version === null) return <>never produced</>
  return (
    <>
      <a href={href(['assets', asset.assetId], { tab: 'versions' })}>{asset.version}</a> <Version of={asset.dataVersion} />
    </>
  )
}

function ageFact(data: AssetData): Fact {
  const lag = lagOf(data)
  if (lag === undefined || lag.ageMs === null) return null
  return ['Age', (
    <span class="row">
      {duration(lag.ageMs)}{lag.maxAgeMs === null ? null : <> of at most {duration(lag.maxAgeMs)}</>}
      {lag.overdue ? <State of="overdue" /> : null}
    </span>
  )]
}

/** What the workflow that makes it says, and whether it may run. */
export function policyFacts({ asset, flow, workflow }: AssetData): Fact[] {
  const version = workflow?.workflowVersion ?? flow?.workflowVersion ?? '–'
  const line = workflow?.sourceLine == null ? '' : `:${workflow.sourceLine}`
  return [
    ['Workflow', <><WorkflowLink slug={asset.workflowSlug ?? ''} /> <span class="quiet">version {version}</span></>],
    ['Defined in', workflow?.sourceFile == null ? '–' : <code>{visible(workflow.sourceFile)}{line}</code>],
    workflow === null ? null : ['Applied', <Time at={workflow.appliedAt} clock />],
    ['Automatic', flow?.automatic ? 'yes' : 'no: it runs only when asked to'],
    partitioned(asset.declaration),
    ['Freshness', policyText(asset.freshness) ?? 'no time at which it expires'],
    ['autoMaterialize', policyText(asset.autoMaterialize) ?? 'none'],
    ...(flow === null ? [] : flowFacts(flow)),
  ]
}

function flowFacts({ paused, cooldown, breaker, runsAvoided }: NonNullable<AssetData['flow']>): Fact[] {
  return [
    paused === false ? null : ['Paused', (
      <>since <Time at={paused.since} clock />{paused.until === null ? ', without an end' : <> until <Time at={paused.until} clock /></>}</>
    )],
    cooldown.failures === 0 ? null : ['Failures in a row', (
      <>
        {cooldown.failures}
        {cooldown.nextEligibleAt === null ? null : <>; not again before <Time at={cooldown.nextEligibleAt} clock /></>}
      </>
    )],
    breaker.state === 'open' ? ['Breaker', <>open since <Time at={breaker.openedAt} clock /></>] : null,
    ['Runs avoided', <>{runsAvoided} <span class="quiet">not needed, because an input was identical</span></>],
  ]
}

/** What a source declares. */
export function declarationFacts({ asset }: AssetData): Fact[] {
  const { declaration } = asset
  const text = (name: string): string | null => (typeof declaration[name] === 'string' ? visible(declaration[name]) : null)
  return [
    ['Format', text('format') ?? 'only its changes are known'],
    text('path') === null ? null : ['Path', <code>{text('path')}</code>],
    text('mode') === null ? null : ['Mode', text('mode')],
    text('description') === null ? null : ['Description', text('description')],
    partitioned(declaration),
    ['Watched', declaration.watch == null ? 'no: its changes are reported' : <a href={href(['sources'], { source: asset.assetId })}>yes</a>],
    ['Read by', asset.consumedBy.length === 0 ? 'nobody' : counted(asset.consumedBy.length, 'workflow')],
  ]
}

/** Which partitions there are, if it has some. */
const partitioned = ({ partitioning }: JsonObject): Fact =>
  (isObject(partitioning) ? ['Partitions', visible(partitioningText(partitioning))] : null)

/** Return the fields of a policy in one line: `ttl 1d, max age 6h`. */
export function policyText(policy: JsonObject | null): string | null {
  if (policy === null) return null
  const parts = Object.entries(policy).flatMap(([name, value]) => {
    if (value === null || value === undefined) return []
    const label = name.replace(/Ms$/, '').replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
    if (name.endsWith('Ms') && typeof value === 'number') return [`${label} ${duration(value)}`]
    if (value === true) return [label]
    if (isObject(value)) return [`${label} (${policyText(value) ?? 'as usual'})`]
    return [`${label} ${typeof value === 'object' ? visible(JSON.stringify(value)) : visible(String(value))}`]
  })
  return parts.length > 0 ? parts.join(', ') : null
}
