import { get } from '../../api'
import { counted, few, short, visible } from '../../format'
import { useLoad } from '../../load'
import { Facts, Panel, RunLink, Sentence, Time, Took, WorkflowLink } from '../../parts/basics'
import { conclusionText } from '../../parts/conclusion'
import { href } from '../../router'
import type { Decision, Page, Run } from '../../types'
import { Cause } from './cause'

/** What is known about a run besides what it read, did and published. */
export function RunFacts({ run }: { run: Run }) {
  const given = Object.entries(run.parameters)
  return (
    <Panel title="About this run">
      <Facts items={[
        ['Workflow', <WorkflowLink key="w" slug={run.workflowSlug} />],
        run.partitionKey === '' && run.partitionKeys.length === 0 ? null : ['Partitions', <Partitions key="p" run={run} />],
        ['Because', <Cause key="c" run={run} />],
        run.decisionId === null ? null : ['Decision', <DecisionLine key="d" run={run} />],
        ['Queued', <Time key="q" at={run.queuedAt} />],
        ['Started', run.startedAt === null ? <span class="quiet">not yet</span> : <Time key="s" at={run.startedAt} />],
        run.startedAt === null ? null : [run.finishedAt === null ? 'Running for' : 'Took', <Took key="t" from={run.startedAt} to={run.finishedAt} />],
        run.startedAt === null ? ['Waiting for', <Took key="t" from={run.queuedAt} to={run.finishedAt} />] : null,
        ['Attempt', run.attempt === 0 ? 'no worker has claimed it' : run.attempt === 1 ? '1, the first'
          : `${run.attempt}: workers of ${counted(run.attempt - 1, 'earlier attempt')} were lost or handed it back`],
        run.workerId === null ? null : ['Worker', <a key="k" class="id" href={href(['workers'], { open: run.workerId })}>{short(run.workerId)}</a>],
        ['Definition', `version ${run.workflowVersion}`],
        ['Priority', String(run.priority)],
        run.cancelReason === null ? null : ['Canceled', visible(run.cancelReason)],
        run.mixed || run.mixedUpstream ? ['Mixed', run.mixed
          ? 'its inputs may be of different generations: it did not wait any longer for a workflow above it'
          : 'its inputs were made from data whose inputs may be of different generations'] : null,
        given.length === 0 ? null : ['Parameters', <code key="m">{visible(JSON.stringify(run.parameters))}</code>],
      ]} />
    </Panel>
  )
}

function Partitions({ run }: { run: Run }) {
  const others = run.partitionKeys.filter((one) => one !== run.partitionKey)
  return (
    <div>
      {visible(run.partitionKey)}
      {run.batchId !== null && run.batchId !== run.id ? <>, in the batch of run <RunLink id={run.batchId} />, which has the steps and the log</>
        : others.length > 0 ? <span class="quiet">, in one batch with {visible(few(others, 6))}</span> : null}
    </div>
  )
}

/** The sentence of the decision that queued the run. */
function DecisionLine({ run }: { run: Run }) {
  const found = useLoad(`decision ${run.decisionId}`, async (stop) => {
    // The decision was stored in the transaction that queued the run, or moved it to newer versions.
    const until = new Date(Date.parse(run.startedAt ?? run.queuedAt) + 60_000).toISOString()
    const page = await get<Page<Decision>>('decisions', {
      workflow: run.workflowSlug, partitionKey: run.partitionKey, until, limit: 20,
    }, stop)
    return page.items.find((one) => one.id === run.decisionId) ?? null
  })
  const address = href(['decisions'], { workflow: run.workflowSlug, partition: run.partitionKey, open: run.decisionId })
  if (found.data === null) return <a class="id" href={address}>{short(run.decisionId)}</a>
  return <div><Sentence text={conclusionText(found.data)} /> · <a href={address}>evidence</a></div>
}
