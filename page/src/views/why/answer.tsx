import { named, visible } from '../../format'
import { AssetLink, Empty, Panel, Sentence, State, Time, WorkflowLink } from '../../parts/basics'
import { conclusionText, reasonText } from '../../parts/conclusion'
import { DecisionLine, EvidenceFacts, Inputs, NoMaterializer, RootCauses, WouldRun } from '../../parts/evidence'
import { causesOf } from '../../parts/evidence-text'
import { countsText } from '../../parts/partition-cells'
import { href } from '../../router'
import type { Decision } from '../../types'
import { NextButton } from '../asset/actions'
import type { WhyData } from './data'

/** The answer as a sentence, then what it rests on. */
export function Answer({ data, at, reload }: { data: WhyData; at: string; reload: () => void }) {
  const { decision, status } = data
  return (
    <>
      <section class="why-answer" aria-label="The answer">
        {at === '' ? <Now data={data} /> : <p class="quiet">At <Time at={at} clock />, the last evaluation said:</p>}
        {decision === null ? <Undecided data={data} at={at} /> : <Decided decision={decision} />}
        {at === '' && status.materializers === 0 ? <NoMaterializer /> : null}
      </section>
      <Chain data={data} at={at} reload={reload} />
      {decision === null ? null : <Evidence data={data} decision={decision} />}
      <Around data={data} at={at} />
    </>
  )
}

function Decided({ decision }: { decision: Decision }) {
  return (
    <>
      <p class="why-sentence">
        <State of={decision.outcome} bare /> <span><Sentence text={conclusionText(decision)} /></span>
      </p>
      <p class="quiet">
        Evaluated <Time at={decision.lastAt} clock /> (<Time at={decision.lastAt} />)
        {decision.count > 1 ? <>, the same since <Time at={decision.at} clock /></> : null}.
        Workflow <WorkflowLink slug={decision.workflowSlug} partition={decision.partitionKey} />.
      </p>
    </>
  )
}

function Now({ data: { asset, status, name, partitionKey, partitionState } }: { data: WhyData }) {
  if (asset === null) return null
  return (
    <p class="row">
      {asset.assetId === name ? null : <><WorkflowLink slug={name} /> makes</>}
      <AssetLink id={asset.assetId} partition={partitionKey} />
      <span class="quiet">is now</span> <State of={asset.partitions === null ? asset.state : partitionState ?? asset.state} />
      {asset.partitions === null ? null : <span class="quiet">({countsText(asset.partitions.counts, asset.partitions.total)})</span>}
      {asset.partitions === null && status.workflows[0]?.inFlight ? <a href={href(['runs', status.workflows[0].inFlight])}>its run</a> : null}
    </p>
  )
}

function Undecided({ data: { asset, name }, at }: { data: WhyData; at: string }) {
  if (asset !== null && asset.workflowSlug === null) {
    return (
      <p>
        {visible(name)} is a source{asset.version === null ? ', and it was never reported' : ''}: it is made outside, its
        changes are reported with <code>freshline report {visible(name)}</code>, and nothing is decided about it.
      </p>
    )
  }
  return <p>Nothing {at === '' ? 'was' : 'had been'} decided about it yet{at === '' ? '' : ' at that time, or the decision has been removed'}.</p>
}

function Evidence({ data, decision }: { data: WhyData; decision: Decision }) {
  const inputs = decision.evidence.inputs?.length ?? 0
  return (
    <div class="columns">
      <Panel title="Evidence" note={inputs > 0 ? 'what the last success read, and what is current' : undefined}>
        <Inputs conclusion={decision} />
        <EvidenceFacts conclusion={decision} />
        {inputs === 0 && Object.keys(decision.evidence).length === 0 ? <p class="quiet">This reason needs no evidence.</p> : null}
      </Panel>
      <Panel title={decision.outcome === 'run' ? 'What happens next' : 'What would make it run'}
        note={decision.outcome === 'hold' ? 'what holds it must end; a run by hand ignores it' : decision.outcome === 'skip' ? 'one of these is enough' : undefined}>
        <WouldRun conclusion={decision} asset={data.asset} />
        {decision.runId === null ? null : <p><a href={href(['runs', decision.runId])}>The run of this decision</a></p>}
      </Panel>
    </div>
  )
}

/** From the asset up to where the trouble begins. */
function Chain({ data, at, reload }: { data: WhyData; at: string; reload: () => void }) {
  const causes = causesOf(data.status.rootCauses, data.asset?.workflowSlug ?? null, data.partitionKey)
  if (data.chain.length === 0 && causes.length === 0) return null
  return (
    <Panel title="Where it begins" note={at !== '' && causes.length > 0 ? 'root causes are those of now' : undefined}>
      {data.chain.length === 0 || data.decision === null ? null : (
        <ol class="why-chain">
          {[data.decision, ...data.chain].map((one) => (
            <li key={`${one.workflowSlug}@${one.partitionKey}`}>
              <State of={one.outcome} bare />
              <span>
                <a class="name" href={href(['why', one.workflowSlug], { partition: one.partitionKey, at })}>
                  {visible(named(one.workflowSlug, one.partitionKey))}
                </a>:{' '}<Sentence text={reasonText(one)} />
              </span>
            </li>
          ))}
        </ol>
      )}
      <RootCauses causes={causes} act={(action) => <NextButton action={action} done={reload} />} />
    </Panel>
  )
}

function Around({ data, at }: { data: WhyData; at: string }) {
  const { decision } = data
  const all = [...[...data.after].reverse(), ...(decision === null ? [] : [decision]), ...data.before]
  if (all.length === 0) return <NoDecisions />
  const filter = data.asset?.assetId === data.name ? { asset: data.name } : { workflow: data.name }
  return (
    <Panel title={at === '' ? 'The last decisions' : 'Decisions around that time'} note="newest first"
      actions={<a class="button small" href={href(['decisions'], filter)}>All decisions</a>}>
      <ol class="plain why-around">
        {all.map((one) => (
          <li key={one.id} class={one.id === decision?.id ? 'current' : ''} aria-current={one.id === decision?.id ? 'true' : undefined}>
            <DecisionLine decision={one} current />
            {one.id === decision?.id ? null : <a class="nowrap" href={href(['why', data.name], { at: one.lastAt, partition: data.partitionKey })}>explain</a>}
          </li>
        ))}
      </ol>
    </Panel>
  )
}

function NoDecisions() {
  return (
    <Empty title="There are no decisions around that time.">
      <p>Decisions are kept for <code>FRESHLINE_KEEP_DAYS</code>; the last one of each workflow is kept longer.</p>
    </Empty>
  )
}
