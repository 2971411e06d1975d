import { get } from '../api'
import { count, counted, short, visible } from '../format'
import { useLoad } from '../load'
import { Bar, Body, Empty, Heading, Panel, RunLink, State, Time } from '../parts/basics'
import { Cli } from '../parts/cli'
import { Filters, type Filter } from '../parts/filters'
import { Table, type Column } from '../parts/table'
import { route } from '../router'
import type { Overview, Page, Pool, Worker } from '../types'
import { processState, troubles, type ProcessState } from './workers/state'
import './lists.css'

const FILTERS: readonly Filter[] = [
  { name: 'kind', label: 'Role', options: [['', 'any'], ['materializer', 'materializer'], ['worker', 'worker'], ['api', 'API']] },
  { name: 'all', label: 'Show', options: [['', 'those that run'], ['true', 'stopped ones too']] },
]

/** The processes of the installation: what they are, whether they live, and what they run. */
export default function WorkersView() {
  const { query } = route.value
  const everything = query.all === 'true'
  const processes = useLoad(`workers ${everything}`, (stop) => get<Page<Worker>>('workers', { stopped: everything, limit: 1000 }, stop), {
    events: (event) => event.type === 'workflow.run.started' || event.type.startsWith('workflow.run.'),
    everyMs: 5000,
  })
  return (
    <>
      <Heading title="Workers" />
      <Filters filters={FILTERS} />
      <Body from={processes} lines={6}>{(page) => <Processes of={page.items.filter((one) => !query.kind || one.kind === query.kind)} all={page.items} />}</Body>
      <Pools />
      <Cli command={`freshline workers${everything ? ' --all' : ''}`} />
    </>
  )
}

function Processes({ of, all }: { of: readonly Worker[]; all: readonly Worker[] }) {
  const live = (kind: string): number => all.filter((one) => one.kind === kind && processState(one) === 'live').length
  return (
    <>
      {live('materializer') === 0 ? (
        <div class="banner banner-warn">
          <span>No materializer is running: nothing is decided, and no event gets a position.</span>
          <Cli command="freshline materializer" />
        </div>
      ) : null}
      {live('worker') === 0 ? (
        <div class="banner banner-warn">
          <span>No worker is running: queued runs wait.</span>
          <Cli command="freshline worker" />
        </div>
      ) : null}
      <Panel title="Processes" note={summary(all)}>
        {of.length === 0 ? (
          <Empty title="No such process has announced itself.">
            <p><code>freshline dev</code> starts all of them together. Each can also be started by itself:</p>
            <Cli command="freshline worker" />
          </Empty>
        ) : (
          <Table items={of} columns={COLUMNS} id={(one) => one.id} label="Processes, the newest sign of life first"
            current={(one) => route.value.query.open === one.id} />
        )}
      </Panel>
    </>
  )
}

/** Return how many processes are in which state. */
function summary(all: readonly Worker[]): string {
  const counts: Record<ProcessState, number> = { live: 0, silent: 0, stopped: 0 }
  for (const one of all) counts[processState(one)] += 1
  return (Object.keys(counts) as ProcessState[]).filter((one) => counts[one] > 0).map((one) => `${counts[one]} ${one}`).join(', ')
}

const COLUMNS: readonly Column<Worker>[] = [
  { title: 'Process', cell: (one) => <span class="id" title={one.id}>{short(one.id)}</span> },
  { title: 'Role', cell: (one) => (one.kind === 'api' ? 'API' : one.kind) },
  { title: 'State', cell: (one) => <State of={processState(one)} /> },
  { title: 'Where', cell: (one) => <span class="nowrap">{visible(one.host)}:{one.pid}</span> },
  { title: 'Project', extra: true, cell: (one) => (one.project === null ? <span class="quiet">–</span> : visible(one.project)) },
  { title: 'Details', wide: true, cell: (one) => <Running one={one} /> },
  { title: 'Started', extra: true, cell: (one) => <Time at={one.startedAt} /> },
  { title: 'Last sign', cell: (one) => <Time at={one.stoppedAt ?? one.seenAt} /> },
]

function Running({ one }: { one: Worker }) {
  const slots = typeof one.info.slots === 'number' ? one.info.slots : null
  const address = typeof one.info.address === 'string' ? one.info.address : null
  if (slots === null && address === null && one.runs.length === 0 && troubles(one).length === 0) return <span class="quiet">–</span>
  return (
    <div>
      {slots === null || processState(one) === 'stopped' ? null : <span class="quiet">{one.runs.length} of {counted(slots, 'slot')}</span>}
      {one.runs.length > 0 ? <div class="runs-of">{one.runs.map((id) => <RunLink key={id} id={id} />)}</div> : null}
      {address === null ? null : <span class="quiet">{visible(address)}</span>}
      {troubles(one).map((text) => <div key={text} class="bad">{visible(text)}</div>)}
    </div>
  )
}

function Pools() {
  const overview = useLoad('pools', (stop) => get<Overview>('overview', {}, stop), {
    events: (event) => event.type.startsWith('workflow.run.'), everyMs: 10_000,
  })
  return (
    <Panel title="Pools" note="slots that all workers of a project share">
      <Body from={overview}>{({ pools }) => (pools.length === 0 ? (
        <Empty title="No pools are declared.">
          <p>A pool limits how many runs of some workflows run at once: <code>[pools]</code> in <code>freshline.toml</code>, and <code>pool</code> of a workflow.</p>
        </Empty>
      ) : <div class="pools">{pools.map((one) => <OnePool key={`${one.project} ${one.name}`} pool={one} />)}</div>)}</Body>
    </Panel>
  )
}

function OnePool({ pool }: { pool: Pool }) {
  const full = pool.running >= pool.slots
  return (
    <div class="pool">
      <div class="row spread">
        <strong>{visible(pool.name)}</strong>
        <span class="quiet">{visible(pool.project)}</span>
      </div>
      <Bar value={pool.running} of={pool.slots} label={`Slots of ${pool.name} in use`} />
      <span>{count(pool.running)} of {counted(pool.slots, 'slot')}{full ? ', full' : ''}{pool.queued > 0 ? `; ${count(pool.queued)} queued` : ''}</span>
    </div>
  )
}
