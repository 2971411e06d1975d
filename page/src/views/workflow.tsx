import { quote, visible, words } from '../format'
import { Body, Empty, Facts, Heading, Panel, RunLink, Sentence, State, Tabs, Time, Took } from '../parts/basics'
import { Cli } from '../parts/cli'
import { conclusionText } from '../parts/conclusion'
import { Table, type Column } from '../parts/table'
import { href, route } from '../router'
import { may } from '../session'
import { now } from '../time'
import type { PolicyStatus, Run } from '../types'
import { askPause, askReset, askResume } from './asset/actions'
import { askRunWorkflow, canReset } from './workflow/actions'
import { useWorkflow, type WorkflowData } from './workflow/data'
import { Definition, place, Versions } from './workflow/definition'
import { partitionFacts } from './workflow/partitioning'
import { facts, policyOf } from './workflow/policy'
import { RunTimes } from './workflow/times'
import { Assets, Steps } from './workflow/steps'
import './workflow.css'

/** One workflow: whether it runs by itself, what holds it, its policy, and what it reads and produces. */
export default function WorkflowView() {
  const slug = route.value.path[1] ?? ''
  const found = useWorkflow(slug)
  const tab = route.value.query.tab === 'definition' ? 'definition' : ''
  return (
    <>
      <Heading
        title={slug} kind="workflow"
        aside={found.data === null ? null : <Mark data={found.data} />}
        actions={found.data === null || found.data.policy === null ? null
          : <Actions data={found.data} policy={found.data.policy} done={found.reload} />}
      />
      <Tabs tabs={[['', 'State and policy'], ['definition', 'Definition']]} current={tab} at={(one) => href(['workflows', slug], { tab: one })} />
      <Body from={found} lines={8}>
        {(data) => tab === 'definition'
          ? <><Definition workflow={data.workflow} /><Versions workflow={data.workflow} changes={data.changes} /></>
          : <Summary data={data} />}
      </Body>
      <Cli command={`freshline status ${quote(slug)}`} />
    </>
  )
}

/** Return the state of a workflow in one word, with a word of `STATES` for its look. */
export function workflowState(policy: PolicyStatus | null): readonly [state: string, label: string] {
  if (policy === null) return ['retired', 'retired']
  if (policy.inFlight !== null) return [policy.inFlight.status, policy.inFlight.status]
  if (policy.breaker.state === 'open') return ['failing', 'breaker open']
  if (policy.paused !== false) return ['paused', 'paused']
  if (policy.cooldown.failures > 0) return ['failing', 'failing']
  if (policy.hold !== null) return ['waiting', words(policy.hold.reason)]
  if (!policy.automatic) return ['retired', 'on request']
  const stale = policy.assets.some((one) => !['fresh', 'source'].includes(one.state))
  return stale ? ['stale', 'stale'] : ['fresh', 'fresh']
}

function Mark({ data }: { data: WorkflowData }) {
  const [state, label] = workflowState(data.policy)
  return <State of={state} label={label} />
}

function Actions({ data, policy, done }: { data: WorkflowData; policy: PolicyStatus; done: () => void }) {
  const { slug } = policy
  const partitions = policy.assets.find((one) => one.partitionKey !== '')?.partitionKey ?? null
  return (
    <>
      {may('operate') ? (
        <>
          <button type="button" class="primary" onClick={() => askRunWorkflow(data.workflow, partitions, done)}>Run…</button>
          {policy.paused === false
            ? <button type="button" onClick={() => askPause(slug, done)}>Pause…</button>
            : <button type="button" onClick={() => askResume(slug, done)}>Resume…</button>}
          <button
            type="button" onClick={() => askReset(slug, done)} disabled={!canReset(policy)}
            title={canReset(policy) ? '' : 'It has no failures, and its breaker is closed.'}
          >
            Reset…
          </button>
        </>
      ) : null}
      <a class="button" href={href(['plan'], { tab: 'simulate', workflow: slug })}>Change a policy…</a>
    </>
  )
}

function Summary({ data }: { data: WorkflowData }) {
  const { workflow, policy: status } = data
  const policy = policyOf(workflow.definition)
  const description = workflow.definition.description
  return (
    <>
      {typeof description === 'string' ? <p>{visible(description)}</p> : null}
      <div class="columns">
        <Panel title="State">
          {status === null ? <p>It was retired <Time at={workflow.retiredAt} />. Its history stays.</p> : <Current data={data} policy={status} />}
        </Panel>
        <Panel title="Policy" note={place(workflow)}>
          <Facts items={[...partitionFacts(workflow.definition), ...facts(policy, workflow.definition)].map(([name, sentence, usual]) => [
            name, <span class={usual ? 'quiet' : ''}>{visible(sentence)}</span>] as const)} />
          <p class="quiet">
            Grey: the default. <a href={href(['plan'], { tab: 'simulate', workflow: workflow.slug })}>Try another policy on the last days</a>
          </p>
        </Panel>
      </div>
      <Assets policy={policy} states={data.states} />
      <Panel title="Last runs" actions={<a href={href(['runs'], { workflow: workflow.slug })}>All its runs</a>}>
        {data.runs.length === 0 ? (
          <Empty title="It has not run yet.">
            <p>A run starts when an input changes or an output is missing, if its policy says so. <code>freshline run {quote(workflow.slug)}</code> runs it now.</p>
          </Empty>
        ) : <><RunTimes slug={workflow.slug} runs={data.runs} /><Table items={data.runs.slice(0, LISTED)} columns={RUN_COLUMNS} id={(run) => run.id} label="Last runs" /></>}
      </Panel>
      <Steps definition={workflow.definition} />
    </>
  )
}

function Current({ data, policy }: { data: WorkflowData; policy: PolicyStatus }) {
  const { decision } = data
  const { hold, paused, cooldown, breaker, inFlight, lastAutoRun, nextRefresh } = policy
  return (
    <>
      {hold === null || decision === null || decision.outcome !== 'hold' ? null : <p><Sentence text={`${sentence(conclusionText(decision))}.`} /></p>}
      <Facts items={[
        ['automatic', policy.automatic ? 'yes' : 'no: it runs only on request'],
        paused === false ? null : ['paused', <>since <Time at={paused.since} clock />{paused.until === null ? ', without an end' : <>, until <Time at={paused.until} clock /></>}</>],
        hold === null ? null : ['held', <>{words(hold.reason)}{hold.blocker === null ? '' : <> <a href={href(['workflows', hold.blocker])}>{visible(hold.blocker)}</a></>}{hold.until === null ? ', until something changes' : <> until <Time at={hold.until} clock /></>}</>],
        inFlight === null ? null : [inFlight.status, <RunLink id={inFlight.runId} />],
        cooldown.failures === 0 ? null : ['failures', <>{cooldown.failures} in a row{cooldown.nextEligibleAt === null ? '' : <>; again <Time at={cooldown.nextEligibleAt} /></>}</>],
        ['breaker', breaker.state === 'open' ? <span class="bad">open since <Time at={breaker.openedAt} clock /></span> : 'closed'],
        ['last success', <Time at={policy.succeededAt} />],
        lastAutoRun === null ? null : ['last automatic run', <><RunLink id={lastAutoRun.runId} /> {lastAutoRun.status}{lastAutoRun.reason === null ? '' : `, ${words(lastAutoRun.reason)}`}</>],
        ['next', nextRefresh === null ? 'when an input changes' : <>{Date.parse(nextRefresh.at) <= now.value ? 'due now' : <Time at={nextRefresh.at} />} ({words(nextRefresh.reason)})</>],
        ['runs avoided', <span title="Runs that were not needed, because an input was produced again with equal data.">{policy.runsAvoided}</span>],
      ]} />
      <p><a href={href(['why', policy.assets[0]?.assetId ?? policy.slug])}>Why?</a> <a href={href(['decisions'], { workflow: policy.slug })}>All its decisions</a></p>
    </>
  )
}

/** Return a sentence with a capital letter. */
const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`

/** The list has the newest of the runs in the chart. */
const LISTED = 10

const RUN_COLUMNS: readonly Column<Run>[] = [
  { title: 'Status', cell: (run) => <State of={run.status} /> },
  { title: 'Run', cell: (run) => <RunLink id={run.id} /> },
  { title: 'Cause', cell: (run) => words(run.trigger.reason ?? run.trigger.type), wide: true },
  { title: 'Partition', cell: (run) => (run.partitionKey === '' ? <span class="quiet">–</span> : <span class={run.partitionKey.length <= 24 ? 'nowrap' : undefined}>{visible(run.partitionKey)}</span>), extra: true },
  { title: 'Queued', cell: (run) => <Time at={run.queuedAt} /> },
  { title: 'Took', cell: (run) => <Took from={run.startedAt} to={run.finishedAt} />, number: true },
  { title: 'Version', cell: (run) => run.workflowVersion, number: true, extra: true },
]
