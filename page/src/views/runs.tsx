import { usePeriod, Filters, PERIODS, type Filter } from '../parts/filters'
import { useListing } from '../listing'
import { ofType } from '../load'
import { firstLine, logText, quote, visible } from '../format'
import { Empty, Heading, RunLink, State, Time, Took, WorkflowLink } from '../parts/basics'
import { Cli } from '../parts/cli'
import { ListingTable, type Column } from '../parts/table'
import { route } from '../router'
import type { Run } from '../types'
import { causeText } from './run/cause'
import { standing } from './run/progress'
import './lists.css'

const FILTERS: readonly Filter[] = [
  { name: 'state', label: 'State', options: [
    ['', 'any'], ['queued', 'queued'], ['running', 'running'], ['succeeded', 'succeeded'], ['failed', 'failed'], ['canceled', 'canceled'],
  ] },
  { name: 'workflow', label: 'Workflow', placeholder: 'its slug' },
  { name: 'asset', label: 'Asset', placeholder: 'made by the run' },
  { name: 'partition', label: 'Partition', placeholder: '2024-01-31' },
  { name: 'trigger', label: 'Because', options: [
    ['', 'anything'], ['auto-materialize', 'automatic'], ['manual', 'by hand'], ['backfill', 'a backfill'],
  ] },
  { name: 'since', label: 'Queued in', options: PERIODS },
]

/** All runs, newest first. */
export default function RunsView() {
  const { query } = route.value
  const since = usePeriod(query.since)
  const listing = useListing<Run>('runs', {
    status: query.state, workflow: query.workflow, asset: query.asset, partitionKey: query.partition, trigger: query.trigger, since,
  }, (one) => one.id, { events: ofType('workflow.run.'), everyMs: 5000 })
  const filtered = FILTERS.some((one) => (query[one.name] ?? '') !== '')
  return (
    <>
      <Heading title="Runs" />
      <Filters filters={FILTERS} />
      <section class="panel">
        <h2 class="hidden-text">All runs</h2>
        <ListingTable listing={listing} columns={COLUMNS} id={(one) => one.id} label="Runs, newest first"
          empty={filtered ? <Empty title="No run matches the filters." /> : <None />} />
      </section>
      <Cli command={runsCommand(query)} />
    </>
  )
}

const COLUMNS: readonly Column<Run>[] = [
  { title: 'Run', cell: (one) => <RunLink id={one.id} /> },
  { title: 'Workflow', cell: (one) => <WorkflowLink slug={one.workflowSlug} partition={one.partitionKey} /> },
  { title: 'State', cell: (one) => (
    <div>
      <State of={one.status} />
      {one.mixed ? <span class="badge" title="Its inputs may be of different generations.">mixed</span> : null}
    </div>
  ) },
  { title: 'Because', wide: true, cell: (one) => <div>{visible(causeText(one.trigger))}<Ending run={one} /></div> },
  { title: 'Queued', cell: (one) => <Time at={one.queuedAt} /> },
  { title: 'Took', number: true, cell: (one) => <Took from={one.startedAt} to={one.finishedAt} /> },
  { title: 'Attempt', number: true, extra: true, cell: (one) => (one.attempt === 0 ? '–' : one.attempt) },
]

/** The error, the reason of a cancellation, or how far it is. */
function Ending({ run }: { run: Run }) {
  if (run.status === 'canceled' && run.cancelReason) return <div class="quiet">{visible(run.cancelReason)}</div>
  if (run.error !== null) return <div class="bad">{logText(firstLine(run.error.message))}</div>
  if (run.status !== 'running') return null
  const { step, text } = standing(run.progress)
  return step === null && text === '' ? null : <div class="quiet">{step === null ? '' : `step ${visible(step)} `}{text}</div>
}

function None() {
  return (
    <Empty title="Nothing ran yet.">
      <p>A run is queued when an input of a workflow changes, when an asset expires, or when somebody asks for it:</p>
      <Cli command="freshline report SOURCE" />
      <Cli command="freshline run WORKFLOW" />
    </Empty>
  )
}

/** Return the command that lists the same runs. */
export function runsCommand(query: Readonly<Record<string, string>>): string {
  const parts = [['--state', 'state'], ['--workflow', 'workflow'], ['--asset', 'asset'], ['--partition', 'partition'],
    ['--trigger', 'trigger'], ['--since', 'since']] as const
  return `freshline runs${parts.map(([flag, name]) => (query[name] ? ` ${flag} ${quote(query[name])}` : '')).join('')}`
}
