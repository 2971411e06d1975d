import type { JSX } from 'preact'
import { get, segment } from '../../api'
import { counted, named, quote, visible, words } from '../../format'
import { about, useLoad } from '../../load'
import { AssetLink, Body, Empty, Panel, Sentence, State, Time, WorkflowLink } from '../../parts/basics'
import { Cli } from '../../parts/cli'
import { reasonText } from '../../parts/conclusion'
import { href, route, setQuery } from '../../router'
import { now } from '../../time'
import type { Asset, Plan, PlannedHold, PlannedRun } from '../../types'
import { usePace } from '../assets/pace'
import { course, labelled, planSentence, positions, type Moment } from './moments'
import { NameField } from './name'

const MOST = 100

/** What would happen if an asset changed now. It is computed from the current state, and nothing is changed. */
export function Wave() {
  const { query } = route.value
  const asset = query.asset ?? ''
  const partition = query.partition ?? ''
  return (
    <>
      <form class="plan-question" onSubmit={(event) => event.preventDefault()}>
        <NameField label="If this asset changed now" kind="asset" value={asset} placeholder="shop.orders" take={(name) => setQuery({ asset: name, partition: '', all: '' }, { push: true })} />
      </form>
      {asset === '' ? <NoAsset /> : <Planned asset={asset} partition={partition} />}
    </>
  )
}

function Planned({ asset, partition }: { asset: string; partition: string }) {
  const names = new Set<string>([asset])
  const paced = usePace()
  const found = useLoad<{ plan: Plan; partition: string }>(`plan ${asset}@${partition}`, (stop) => paced(`${asset}@${partition}`, stop, async () => {
    let key = partition
    if (key === '') {
      // A change of an asset with partitions is a change of one of them: the newest, unless another is named.
      const one = await get<Asset>(`assets/${segment(asset)}`, {}, stop)
      if (one.partitions !== null) key = one.partitionKey
    }
    return { plan: await get<Plan>(`assets/${segment(asset)}/plan`, { partitionKey: key }, stop), partition: key }
  }), { events: (event) => about(...names)(event), everyMs: 60_000 })
  for (const one of [...(found.data?.plan.runs ?? []), ...(found.data?.plan.held ?? [])]) names.add(one.workflowSlug)
  const key = found.data?.partition ?? partition
  return (
    <>
      {key === '' ? null : (
        <form class="plan-question" onSubmit={(event) => event.preventDefault()}>
          <div class="field">
            <label for="plan-partition">Partition</label>
            <input id="plan-partition" type="search" value={key} spellcheck={false} onChange={(event) => setQuery({ partition: event.currentTarget.value.trim() })} />
            {partition === '' ? <span class="hint">The newest one; another can be named.</span> : null}
          </div>
        </form>
      )}
      <Body from={found} lines={6}>{(data) => <Answer plan={data.plan} partition={data.partition} />}</Body>
      <Cli command={`freshline plan ${quote(asset)}${key === '' ? '' : ` --partition ${quote(key)}`}`} />
    </>
  )
}

function Answer({ plan, partition }: { plan: Plan; partition: string }) {
  const { moments, open } = course(plan)
  if (plan.runs.length + plan.held.length + plan.cut.length === 0) {
    return <Empty title={visible(planSentence(plan, partition))}><p>A workflow reads an asset by naming it in <code>consumes</code>.</p></Empty>
  }
  return (
    <>
      <p class="plan-sentence">{visible(planSentence(plan, partition))}</p>
      {plan.active.length === 0 ? null : <p class="quiet">Already queued or running, taken as done: {plan.active.map(visible).join(', ')}.</p>}
      <Panel title="What would run, in order" note="the time of a run is the earliest">
        {moments.some((one) => one.at !== null) ? <Strip moments={moments} /> : null}
        {plan.runs.length === 0 ? <p>Nothing would run at once.</p> : null}
        <ol class="plain moments">
          {moments.map((moment) => <MomentItem key={moment.at ?? 'now'} moment={moment} />)}
          {open.length === 0 ? null : (
            <li class="moment moment-open">
              <h3>When something else changes</h3>
              <ul class="plain stack">{open.map((one) => <Held key={named(one.workflowSlug, one.partitionKey)} one={one} />)}</ul>
            </li>
          )}
        </ol>
      </Panel>
      {plan.cut.length === 0 ? null : (
        <Panel title="Where it stops" note={`${counted(plan.cut.length, 'workflow')} would not run by ${plan.cut.length === 1 ? 'itself' : 'themselves'}`}>
          <ul class="plain stack"><Few items={plan.cut}>{(one) => <Held key={named(one.workflowSlug, one.partitionKey)} one={one} />}</Few></ul>
        </Panel>
      )}
      <Panel title="What this assumes">
        <ul class="plan-notes">{plan.assumes.map((one) => <li key={one}>{visible(one)}</li>)}</ul>
        <p class="quiet">It starts from the current state, and changes nothing.</p>
      </Panel>
    </>
  )
}

function MomentItem({ moment }: { moment: Moment }) {
  return (
    <li class={moment.runs.length > 0 ? 'moment' : 'moment moment-hold'}>
      <h3>{moment.at === null ? 'At once' : <><Time at={moment.at} /> <span class="quiet">(<Time at={moment.at} clock />{moment.runs.length > 0 ? ', when a debounce ends' : ''})</span></>}</h3>
      <ol class="plain stack">
        <Few items={moment.runs}>{(run) => <Run key={`${run.order} ${run.workflowSlug}@${run.partitionKey}`} run={run} />}</Few>
        {moment.ends.map((one) => <Held key={named(one.workflowSlug, one.partitionKey)} one={one} />)}
      </ol>
    </li>
  )
}

function Few<T>({ items, children }: { items: readonly T[]; children: (item: T) => JSX.Element }) {
  const all = route.value.query.all === '1'
  return (
    <>
      {(all ? items : items.slice(0, MOST)).map(children)}
      {!all && items.length > MOST ? <li><button type="button" onClick={() => setQuery({ all: '1' })}>Show all {items.length}</button></li> : null}
    </>
  )
}

function Run({ run }: { run: PlannedRun }) {
  return (
    <li class="planned">
      <span class="planned-order">{run.order}</span>
      <State of="run" bare label="run" />
      <span class="planned-text">
        <span><WorkflowLink slug={run.workflowSlug} partition={run.partitionKey} /> <span class="quiet">→</span> <Assets ids={run.assets} /></span>
        <span class="quiet">
          {words(run.reason)}{run.upstream.length === 0 ? '' : `${run.reason === 'upstream-update' ? ' of' : ', after a change of'} ${run.upstream.map(visible).join(', ')}`}
          {run.mixed ? <span class="warn">; it may read a mix of generations</span> : null}
        </span>
      </span>
      <a class="planned-action" href={href(['plan'], { tab: 'simulate', workflow: run.workflowSlug })} aria-label={`Change its policy: ${run.workflowSlug}`}>Change its policy</a>
    </li>
  )
}

function Held({ one }: { one: PlannedHold }) {
  return (
    <li class="planned">
      <span class="planned-order" />
      <State of={one.outcome} bare label={one.outcome === 'hold' ? 'held' : 'does not run'} />
      <span class="planned-text">
        <span><WorkflowLink slug={one.workflowSlug} partition={one.partitionKey} /> <span class="quiet">→</span> <Assets ids={one.assets} /></span>
        <span class="quiet"><Sentence text={whyNot(one)} /></span>
      </span>
    </li>
  )
}

/** Return why a workflow of a plan does not run. */
function whyNot(one: PlannedHold): string {
  if (one.behind.length > 0) return `it reads nothing new: ${one.behind.join(', ')} would not run`
  return one.reason === 'up-to-date' ? 'nothing that may trigger it would change' : reasonText(one)
}

const Assets = ({ ids }: { ids: readonly string[] }) =>
  <>{ids.slice(0, 5).map((id, index) => <>{index > 0 ? ', ' : ''}<AssetLink id={id} /></>)}{ids.length > 5 ? ` and ${ids.length - 5} more` : ''}</>

/** The moments on one line, from now to the last one. */
function Strip({ moments }: { moments: readonly Moment[] }) {
  const places = positions(moments, now.value)
  const named = labelled(places)
  return (
    <div class="strip" role="img" aria-label={`${moments.length} moments, from now on`}>
      <span class="strip-line" />
      {moments.map((moment, index) => (
        <span key={moment.at ?? 'now'} class={moment.runs.length > 0 ? 'strip-mark' : 'strip-mark strip-hold'} style={{ left: `${(places[index] ?? 0) * 100}%` }}>
          {named[index] ? <span class="strip-label">{moment.at === null ? 'now' : <Time at={moment.at} />}</span> : null}
        </span>
      ))}
    </div>
  )
}

function NoAsset() {
  return (
    <Empty title="Name an asset to see what its change would cause.">
      <p>
        The plan starts from the current state: what runs, in which order, what is held and until when, and where the wave
        stops. Nothing is changed. To try another policy on the changes of the last days,{' '}
        <a href={href(['plan'], { tab: 'simulate' })}>simulate it</a>.
      </p>
    </Empty>
  )
}
