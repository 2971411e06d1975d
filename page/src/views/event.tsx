import { get, Problem, segment } from '../api'
import { counted, logText, short, visible } from '../format'
import { useLoad } from '../load'
import { Body, Empty, Facts, Heading, Panel, RunLink, State, Time, WorkflowLink } from '../parts/basics'
import { Cli, Copy } from '../parts/cli'
import { eventText } from '../parts/event-text'
import { Fates } from '../parts/fates'
import { href, route } from '../router'
import type { EventDetail, Run, RunDetail } from '../types'
import { Subject } from './events'
import { Cause } from './run/cause'

/** One event: what it says, what caused it, and what became of it. */
export default function EventView() {
  const id = route.value.path[1] ?? ''
  const event = useLoad(`event ${id}`, (stop) => get<EventDetail>(`events/${segment(id)}`, { limit: 1000 }, stop), {
    // Its outcomes change as runs begin and end.
    events: (one) => one.type.startsWith('workflow.') || one.type.startsWith('asset.'),
  })
  const gone = event.error instanceof Problem && event.error.status === 404 && event.data === null
  return (
    <>
      <Heading kind="event" title={event.data?.type ?? short(id)}
        aside={event.data === null ? undefined : <span class="id">{event.data.position ?? 'not numbered yet'}</span>} />
      {gone ? (
        <Empty title="There is no such event.">
          <p>Old events are removed after <code>FRESHLINE_KEEP_DAYS</code>. <a href={href(['events'])}>All events</a></p>
        </Empty>
      ) : <Body from={event} lines={8}>{(found) => <Shown event={found} />}</Body>}
      <Cli command={`freshline events ${event.data?.position ?? id}`} />
    </>
  )
}

function Shown({ event }: { event: EventDetail }) {
  const runId = typeof event.data.runId === 'string' ? event.data.runId : null
  return (
    <>
      <div class="columns">
        <Panel title="What happened">
          <Facts items={[
            ['Subject', <Subject key="s" event={event} />],
            ['Time', <Time key="t" at={event.time} />],
            ['What', eventText(event) || <span class="quiet">–</span>],
            ['Id', <span key="i" class="id event-id">{event.id}</span>],
          ]} />
        </Panel>
        <Panel title="What caused it"><CausedBy event={event} runId={runId} /></Panel>
      </div>
      <Panel title="What it caused" note={counts(event)}>
        {event.fates.length > 0 ? <Fates fates={event.fates} consumers={event.consumers} label="Outcome for each workflow" /> : (
          <Empty title={NO_FATES[event.type] ?? 'Nothing: this kind of event is information, and causes no run.'} />
        )}
      </Panel>
      <Panel title="Data" actions={<Copy text={JSON.stringify(event.data, null, 1)} label="Copy the data as JSON" />}>
        <pre class="box event-data" tabIndex={0}>{JSON.stringify(event.data, null, 2).split('\n').map(logText).join('\n')}</pre>
      </Panel>
    </>
  )
}

const NO_FATES: Readonly<Record<string, string>> = {
  'asset.produced': 'Nothing: no workflow consumes it.',
  'asset.expired': 'Nothing: no workflow makes it.',
}

/** Return how many workflows had which outcome. */
export function counts(event: EventDetail): string | undefined {
  if (event.fates.length === 0) return undefined
  const found = new Map<string, number>()
  for (const one of event.fates) found.set(one.fate, (found.get(one.fate) ?? 0) + 1)
  const known = [...found].map(([fate, n]) => `${n} ${fate}`).join(', ')
  return `${counted(event.consumers, 'workflow')}: ${known}`
}

/** Where an event comes from: a run and what caused that, a person, or the clock. */
function CausedBy({ event, runId }: { event: EventDetail; runId: string | null }) {
  if (runId !== null) return <CausedByRun runId={runId} />
  const about = visible(event.subject)
  switch (event.type) {
    case 'asset.produced':
      return (
        <div class="stack">
          <p>{event.data.rolledBackTo === undefined ? `It was reported: ${about} changed outside of Freshline.` : 'Somebody rolled the table back.'}</p>
          <p><a href={href(['audit'], { subject: event.subject })}>Who reported it</a> is in the audit. A watcher is not a user and is not there: see <a href={href(['sources'], { source: event.subject })}>the source</a>.</p>
        </div>
      )
    case 'asset.expired':
      return <p>Time: {event.data.reason === 'manual' ? <>somebody expired it, as <a href={href(['audit'], { subject: event.subject })}>the audit</a> says.</> : 'its freshness policy says until when it is fresh.'}</p>
    case 'asset.overdue':
      return <p>Time: it is older than its <code>maxAgeMs</code>.</p>
    case 'workflow.definition.updated':
      return <p>Somebody applied a project. <a href={href(['audit'], { subject: event.subject })}>The audit</a> says who.</p>
    default:
      return <p class="quiet">It follows from the state of {about}; no run is named.</p>
  }
}

function CausedByRun({ runId }: { runId: string }) {
  const run = useLoad(`cause ${runId}`, (stop) => get<RunDetail>(`runs/${segment(runId)}`, {}, stop), {
    events: (event) => event.data.runId === runId,
  })
  if (run.error instanceof Problem && run.error.status === 404) return <p>Run <span class="id">{short(runId)}</span>, which is not retained any more.</p>
  return <Body from={run}>{(found: Run) => (
    <Facts items={[
      ['Run', <span key="r" class="row"><RunLink id={found.id} /><State of={found.status} /></span>],
      ['Of', <WorkflowLink key="w" slug={found.workflowSlug} partition={found.partitionKey} />],
      ['Which ran because', <Cause key="c" run={found} />],
    ]} />
  )}</Body>
}
