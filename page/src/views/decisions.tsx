import { quote, words } from '../format'
import { useListing } from '../listing'
import { any } from '../load'
import { Empty, Heading, RunLink, Sentence, State, Time, WorkflowLink } from '../parts/basics'
import { Cli } from '../parts/cli'
import { conclusionText, REASON_NAMES } from '../parts/conclusion'
import { EvidenceOf } from '../parts/decision-evidence'
import { Filters, PERIODS, usePeriod, type Filter } from '../parts/filters'
import { ListingTable, type Column } from '../parts/table'
import { route, setQuery } from '../router'
import type { Decision } from '../types'
import './lists.css'

const FILTERS: readonly Filter[] = [
  { name: 'workflow', label: 'Workflow', placeholder: 'its slug' },
  { name: 'asset', label: 'Asset', placeholder: 'its output' },
  { name: 'partition', label: 'Partition', placeholder: '2024-01-31' },
  { name: 'outcome', label: 'Outcome', options: [['', 'any'], ['run', 'run'], ['hold', 'held'], ['skip', 'nothing to do'], ['error', 'error']] },
  { name: 'reason', label: 'Reason', options: [['', 'any'], ...REASON_NAMES.map((one) => [one, words(one)] as const)] },
  { name: 'since', label: 'In', options: PERIODS },
]

/** What the reconciler decided, newest first: run, hold, skip or error, with the evidence. */
export default function DecisionsView() {
  const { query } = route.value
  const since = usePeriod(query.since)
  const all = useListing<Decision>('decisions', {
    workflow: query.workflow, asset: query.asset, partitionKey: query.partition, outcome: query.outcome, since,
  }, (one) => one.id, { events: any, everyMs: 10_000, limit: query.reason ? 200 : 50 })
  // The API has no filter for reasons, so they are chosen among the entries that were read.
  const listing = query.reason && all.items !== null ? { ...all, items: all.items.filter((one) => one.reason === query.reason) } : all
  const filtered = FILTERS.some((one) => (query[one.name] ?? '') !== '')
  return (
    <>
      <Heading title="Decisions" />
      <Filters filters={FILTERS} />
      <section class="panel">
        <h2 class="hidden-text">All decisions</h2>
        <ListingTable listing={listing} columns={COLUMNS} id={(one) => one.id} label="Decisions, newest first"
          empty={filtered ? <None more={all.more} load={all.loadMore} busy={all.busy} /> : (
            <Empty title="Nothing was decided yet.">
              <p>A materializer evaluates a workflow when something changes that concerns it, and stores what it decided and why.</p>
              <Cli command="freshline apply" />
              <Cli command="freshline report SOURCE" />
            </Empty>
          )} />
      </section>
      <Cli command={decisionsCommand(query)} />
    </>
  )
}

function None({ more, load, busy }: { more: boolean; load: () => void; busy: boolean }) {
  return (
    <Empty title={more ? 'None of the entries that were read matches.' : 'No decision matches the filters.'}>
      {more ? <button type="button" onClick={load} disabled={busy}>Look at older ones</button> : null}
    </Empty>
  )
}

const COLUMNS: readonly Column<Decision>[] = [
  { title: 'Time', cell: (one) => (
    <div>
      <Time at={one.at} />
      {one.count > 1 ? <div class="quiet nowrap" title={`${one.count} evaluations with this result`}>{one.count}×, last <Time at={one.lastAt} /></div> : null}
    </div>
  ) },
  { title: 'Workflow', cell: (one) => <WorkflowLink slug={one.workflowSlug} partition={one.partitionKey} /> },
  { title: 'Outcome', cell: (one) => <State of={one.outcome} label={one.outcome === 'hold' ? 'held' : one.outcome} /> },
  { title: 'Reason', extra: true, cell: (one) => <span class="nowrap">{words(one.reason)}</span> },
  { title: 'Decision', wide: true, cell: (one) => <Expandable decision={one} /> },
  { title: 'Run', cell: (one) => <RunLink id={one.runId} /> },
]

/** The sentence; behind it the evidence. Which one is open is in the address, to send it to somebody. */
function Expandable({ decision }: { decision: Decision }) {
  const open = route.value.query.open === decision.id
  return (
    <details class="sentence" open={open}>
      <summary onClick={(event) => {
        // A click on a link or a selection of text in the sentence is not a click on it.
        event.preventDefault()
        setQuery({ open: open ? null : decision.id })
      }}><Sentence text={conclusionText(decision)} /></summary>
      {open ? <EvidenceOf one={decision} /> : null}
    </details>
  )
}

function decisionsCommand(query: Readonly<Record<string, string>>): string {
  const parts = (['workflow', 'asset', 'partition', 'outcome', 'since'] as const)
    .map((name) => (query[name] ? ` --${name} ${quote(query[name])}` : ''))
  return `freshline decisions${parts.join('')}`
}
