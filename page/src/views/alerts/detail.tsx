import { get, segment } from '../../api'
import { count, counted, few, firstLine, logText, quote, visible, words } from '../../format'
import { useListing } from '../../listing'
import { ofType, useLoad } from '../../load'
import { Body, Empty, Facts, Heading, Panel, RunLink, State, Time, Took } from '../../parts/basics'
import { Cli } from '../../parts/cli'
import { Due } from '../../parts/due'
import { Needs } from '../../parts/scope'
import { ListingTable, type Column } from '../../parts/table'
import { href, route, setQuery } from '../../router'
import { may } from '../../session'
import { duration } from '../../time'
import type { Alert, AlertIncident, AlertMessage } from '../../types'
import { AlertState } from '../alerts'
import { askPause, askRemove, askResume } from './actions'

/** One rule: its incidents, and every message with its result. */
export function AlertDetail({ name }: { name: string }) {
  const loaded = useLoad(`alert ${name}`, (stop) => get<Alert>(`alerts/${segment(name)}`, {}, stop), { everyMs: 5000 })
  const one = loaded.data
  return (
    <>
      <p><a href={href(['alerts'])}>All rules</a></p>
      <Heading kind="alert" title={name} aside={one === null ? undefined : <AlertState one={one} />}
        actions={one !== null && may('admin') ? <Actions one={one} reload={loaded.reload} /> : undefined} />
      <Body from={loaded} lines={6}>{(found) => <Rule one={found} />}</Body>
      <Incidents name={name} />
      <Messages name={name} />
      <Needs scope="admin" to="pause, resume or remove it" />
      <Cli command={`freshline alert show ${quote(name)}`} />
    </>
  )
}

function Actions({ one, reload }: { one: Alert; reload: () => void }) {
  return (
    <>
      {one.paused ? <button type="button" onClick={() => askResume(one, reload)}>Resume…</button>
        : <button type="button" onClick={() => askPause(one, reload)}>Pause…</button>}
      {!one.paused && one.waiting > 0 && one.trouble !== null
        ? <button type="button" onClick={() => askResume(one, reload)}>Send now…</button> : null}
      {one.project === null ? <button type="button" class="danger" onClick={() => askRemove(one)}>Remove…</button> : null}
    </>
  )
}

function Rule({ one }: { one: Alert }) {
  return (
    <Panel title="Rule">
      <Facts items={[
        ['Reports', visible(few(one.on.map(words), 10))],
        ['Assets', visible(few(one.assets, 20))],
        ['To', <span key="t" class="mono">{visible(few(one.to, 20))}</span>],
        ['After', one.afterMs === 0 ? 'at once' : `what is wrong for ${duration(one.afterMs)}`],
        ['All clear', `when all was fine for ${duration(one.clearAfterMs)}`],
        one.quiet.length === 0 ? null : ['Quiet', <code key="q">{visible(JSON.stringify(one.quiet))}</code>],
        one.digest === null ? null : ['Summary', <code key="d">{visible(JSON.stringify(one.digest))}</code>],
        ['Declared by', one.project === null ? 'a command or a request' : `freshline.toml of project ${visible(one.project)}: remove it there, and apply`],
        ['Messages', `${count(one.sent)} sent, ${count(one.waiting)} waiting, ${count(one.dead)} given up`],
        one.trouble === null ? null : ['Last error', <span key="x" class="bad">{visible(one.trouble)}</span>],
      ]} />
    </Panel>
  )
}

function Incidents({ name }: { name: string }) {
  const onlyOpen = route.value.query.open === 'true'
  const listing = useListing<AlertIncident>(`alerts/${segment(name)}/incidents`, { open: onlyOpen }, (one) => one.id, {
    events: ofType('workflow.run.', 'asset.', 'materializer.'), everyMs: 5000,
  })
  return (
    <section class="panel">
      <header class="panel-head">
        <h2>Incidents</h2>
        <div class="panel-actions">
          <label class="row">
            <input type="checkbox" checked={onlyOpen} onChange={(event) => setQuery({ open: event.currentTarget.checked })} />
            <span>only open ones</span>
          </label>
        </div>
      </header>
      <ListingTable listing={listing} columns={INCIDENTS} id={(one) => one.id} label="Incidents, newest first"
        empty={<Empty title={onlyOpen ? 'Nothing is wrong now.' : 'Nothing was wrong yet.'}>
          <p>One cause is one incident, however many assets wait for it.</p>
        </Empty>} />
    </section>
  )
}

const CLOSINGS: Readonly<Record<string, string>> = {
  recovered: 'all is fine', removed: 'its root was removed', unmatched: 'the rule does not cover it any more',
}

const INCIDENTS: readonly Column<AlertIncident>[] = [
  { title: 'State', cell: (one) => <State of={one.closedAt === null ? 'open' : 'closed'} label={one.closedAt === null ? (one.recoveredAt === null ? 'open' : 'open, fine for now') : 'ended'} /> },
  { title: 'Root', cell: (one) => (
    <a class="name" href={one.rootType === 'workflow' ? href(['workflows', one.root]) : href(['assets', one.root])}>{visible(one.root)}</a>
  ) },
  { title: 'What', wide: true, cell: (one) => (
    <div>
      {visible(few(one.kinds.map(words)))}; {counted(one.affected, 'asset')} affected
      {one.error === null ? null : <div class="bad">{logText(firstLine(one.error))}</div>}
    </div>
  ) },
  { title: 'Run', cell: (one) => <RunLink id={one.runId} /> },
  { title: 'Began', cell: (one) => <Time at={one.openedAt} /> },
  { title: 'Lasted', number: true, cell: (one) => <Took from={one.openedAt} to={one.closedAt} /> },
  { title: 'Message', extra: true, cell: (one) => (
    <div>
      {one.alertedAt === null ? <span class="quiet">none yet</span> : <>made <Time at={one.alertedAt} /></>}
      {one.closing === null ? null : <div class="quiet">{CLOSINGS[one.closing] ?? visible(one.closing)}</div>}
    </div>
  ) },
]

function Messages({ name }: { name: string }) {
  const listing = useListing<AlertMessage>(`alerts/${segment(name)}/messages`, {}, (one) => String(one.number), { everyMs: 5000 })
  return (
    <section class="panel">
      <header class="panel-head"><h2>Messages</h2><span class="quiet">one for each address</span></header>
      <ListingTable listing={listing} columns={MESSAGES} id={(one) => String(one.number)} label="Messages, newest first"
        empty={<Empty title="Nothing was sent yet."><Cli command={`freshline alert test ${quote(name)}`} /></Empty>} />
    </section>
  )
}

const MESSAGES: readonly Column<AlertMessage>[] = [
  { title: 'State', cell: (one) => <State of={one.state === 'waiting' ? 'hold' : one.state} label={one.state === 'dead' ? 'given up' : one.state} /> },
  { title: 'Kind', cell: (one) => (one.kind === 'clear' ? 'all clear' : one.kind) },
  { title: 'Title', wide: true, cell: (one) => (
    <div>
      {one.title === null ? <span class="quiet">not written yet</span> : visible(one.title)}
      {one.trouble === null ? null : <div class="bad">{visible(one.trouble)}</div>}
    </div>
  ) },
  { title: 'To', cell: (one) => (one.to === null ? <span class="quiet">an address that was removed</span> : <span class="mono">{visible(one.to)}</span>) },
  { title: 'Created', cell: (one) => <Time at={one.createdAt} /> },
  { title: 'Sent', cell: (one) => (one.sentAt === null && one.nextAttemptAt !== null ? <span class="quiet">next try <Due at={one.nextAttemptAt} /></span> : <Time at={one.sentAt} />) },
  { title: 'Attempts', number: true, extra: true, cell: (one) => one.attempts },
]
