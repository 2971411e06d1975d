import { get, segment } from '../../api'
import { count, counted, few, quote, visible } from '../../format'
import { useListing } from '../../listing'
import { useLoad } from '../../load'
import { Body, Empty, Facts, Heading, Panel, State, Time } from '../../parts/basics'
import { Cli } from '../../parts/cli'
import { Due } from '../../parts/due'
import { Needs } from '../../parts/scope'
import { ListingTable, type Column } from '../../parts/table'
import { href } from '../../router'
import { may } from '../../session'
import type { Webhook, WebhookDelivery } from '../../types'
import { askPause, askRemove, askReplay, askResume } from './actions'
import { webhookState } from './state'

/** One webhook: what it sends, how that goes, and what did not arrive. */
export function WebhookDetail({ name }: { name: string }) {
  const loaded = useLoad(`webhook ${name}`, (stop) => get<Webhook>(`webhooks/${segment(name)}`, {}, stop), { everyMs: 5000 })
  const one = loaded.data
  return (
    <>
      <p><a href={href(['webhooks'])}>All webhooks</a></p>
      <Heading kind="webhook" title={name} aside={one === null ? undefined : <StateOf one={one} />}
        actions={one !== null && may('admin') ? <Actions one={one} reload={loaded.reload} /> : undefined} />
      <Body from={loaded} lines={6}>{(found) => <Shown one={found} reload={loaded.reload} />}</Body>
      <Needs scope="admin" to="pause, resume or remove it, or to send dead letters again" />
      <Cli command={`freshline webhook deliveries ${quote(name)}`} />
    </>
  )
}

function StateOf({ one }: { one: Webhook }) {
  const { state, label } = webhookState(one)
  return <State of={state} label={label} />
}

function Actions({ one, reload }: { one: Webhook; reload: () => void }) {
  return (
    <>
      {one.dead > 0 ? <button type="button" class="primary" onClick={() => askReplay(one, null, reload)}>Send dead letters again…</button> : null}
      {one.paused ? <button type="button" onClick={() => askResume(one, reload)}>Resume…</button>
        : <button type="button" onClick={() => askPause(one, reload)}>Pause…</button>}
      {!one.paused && one.failures > 0 ? <button type="button" onClick={() => askResume(one, reload)}>Try at once…</button> : null}
      <button type="button" class="danger" onClick={() => askRemove(one)}>Remove…</button>
    </>
  )
}

function Shown({ one, reload }: { one: Webhook; reload: () => void }) {
  return (
    <>
      <div class="columns">
        <Panel title="What it sends">
          <Facts items={[
            ['Receiver', <code key="u">{visible(one.url)}</code>],
            ['Format', one.kind === 'openlineage' ? 'OpenLineage' : 'CloudEvents, signed as Standard Webhooks defines'],
            ['Types', visible(few(one.types, 20))],
            ['Assets', visible(few(one.assets, 20))],
            ['Added', <Time key="a" at={one.createdAt} />],
          ]} />
        </Panel>
        <Panel title="How that goes">
          <Facts items={[
            ['Delivered', <>{counted(one.delivered, 'event')}{one.deliveredAt === null ? null : <>, last <Time at={one.deliveredAt} /></>}</>],
            ['Up to position', count(one.position)],
            ['Waiting', counted(one.waiting, 'failed delivery', 'failed deliveries')],
            ['Dead', one.dead > 0 ? <span class="bad">{counted(one.dead, 'event')} given up</span> : 'none'],
            one.failures > 0 ? ['Failures', `${counted(one.failures, 'failure')} in a row`] : null,
            one.trouble === null ? null : ['Last error', <span key="t" class="bad">{visible(one.trouble)}</span>],
            one.nextAttemptAt === null ? null : ['Next attempt', <Due key="n" at={one.nextAttemptAt} />],
          ]} />
        </Panel>
      </div>
      {/* A listing keeps what it shows. Deliveries that arrived leave it, so it starts anew when their number changes. */}
      <Deliveries key={`${one.waiting} ${one.dead}`} one={one} reload={reload} />
    </>
  )
}

/** What did not arrive yet: deliveries that wait for a retry, and dead letters. Those that arrived are not stored. */
function Deliveries({ one, reload }: { one: Webhook; reload: () => void }) {
  const listing = useListing<WebhookDelivery>(`webhooks/${segment(one.name)}/deliveries`, {}, (delivery) => delivery.eventId, { everyMs: 5000 })
  const done = (): void => {
    reload()
    listing.reload()
  }
  return (
    <section class="panel">
      <header class="panel-head"><h2>Not delivered</h2><span class="quiet">in the order of positions</span></header>
      <ListingTable listing={listing} columns={columns(one, done)} id={(delivery) => delivery.eventId} label="Deliveries that failed"
        empty={<Empty title="Everything was delivered." />} />
    </section>
  )
}

function columns(one: Webhook, done: () => void): readonly Column<WebhookDelivery>[] {
  return [
    { title: 'Event', number: true, cell: (delivery) => <a class="id" href={href(['events', delivery.eventId])}>{delivery.position}</a> },
    { title: 'State', cell: (delivery) => <State of={delivery.state} /> },
    { title: 'Attempts', number: true, cell: (delivery) => delivery.attempts },
    { title: 'Tried', cell: (delivery) => <Time at={delivery.triedAt} /> },
    { title: 'Next', cell: (delivery) => (delivery.state === 'dead' ? <span class="quiet">given up <Time at={delivery.deadAt} /></span> : <Due at={delivery.nextAttemptAt} />) },
    { title: 'Error', wide: true, cell: (delivery) => <span class="bad">{visible(delivery.trouble)}</span> },
    ...(may('admin') ? [{ title: 'Action', cell: (delivery: WebhookDelivery) => (delivery.state === 'dead'
      ? <button type="button" class="small" aria-label={`Send again: event ${delivery.position}`} onClick={() => askReplay(one, delivery.eventId, done)}>Send again</button>
      : <span class="quiet">–</span>) }] : []),
  ]
}
