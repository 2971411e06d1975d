import { post, segment } from '../../api'
import { quote, version, visible } from '../../format'
import { useListing } from '../../listing'
import { about } from '../../load'
import { Empty, State, Time } from '../../parts/basics'
import { Cli } from '../../parts/cli'
import { ask } from '../../parts/confirm'
import { ListingTable, type Column } from '../../parts/table'
import { href } from '../../router'
import { may } from '../../session'
import type { Delivery, Json } from '../../types'

/** The deliveries of a source with `mode: append`, newest first. */
export function Deliveries({ id }: { id: string }) {
  const listing = useListing<Delivery>(`assets/${segment(id)}/deliveries`, {}, (one) => String(one.number), { events: about(id) })
  return (
    <section class="panel">
      <header class="panel-head"><h2>Deliveries</h2></header>
      <ListingTable listing={listing} columns={columns(id, listing.reload)} id={(one) => String(one.number)} label="Deliveries, newest first"
        empty={(
          <Empty title="Nothing was delivered yet.">
            <p>Each report of this source adds a delivery, which every consumer reads once.</p>
            <Cli command={`freshline report ${quote(id)} --payload '{"path": "..."}'`} />
          </Empty>
        )} />
      <Cli command={`freshline delivery list ${quote(id)}`} />
    </section>
  )
}

function columns(id: string, reload: () => void): readonly Column<Delivery>[] {
  return [
    { title: 'Number', number: true, cell: (one) => <a class="id" href={href(['events', one.eventId])} title="Its event">{one.number}</a> },
    { title: 'Reported', cell: (one) => <Time at={one.reportedAt} /> },
    { title: 'What', wide: true, cell: (one) => <What delivery={one} /> },
    { title: 'Data version', extra: true, cell: (one) => <span class="id">{visible(version(one.dataVersion))}</span> },
    { title: 'State', cell: (one) => (one.skipped ? (
      <div><State of="skip" label="left out" /><div class="quiet">{visible(one.skipped.reason)}{one.skipped.by ? `, by ${visible(one.skipped.by)}` : ''}</div></div>
    ) : <State of="ok" label="delivered" />) },
    ...(may('operate') ? [{ title: 'Action', cell: (one: Delivery) => (one.skipped ? <span class="quiet">–</span> : (
      <button type="button" class="small" aria-label={`Leave out delivery ${one.number}`} onClick={() => askSkip(id, one, reload)}>Leave out</button>
    )) }] : []),
  ]
}

function What({ delivery }: { delivery: Delivery }) {
  if (delivery.path !== null) return <code>{visible(delivery.path)}</code>
  return delivery.payload === null ? <span class="quiet">–</span> : <code>{visible(shortJson(delivery.payload))}</code>
}

function shortJson(value: Json): string {
  const text = JSON.stringify(value)
  return text.length <= 120 ? text : `${text.slice(0, 119)}…`
}

function askSkip(id: string, delivery: Delivery, reload: () => void): void {
  ask({
    title: `Leave out delivery ${delivery.number} of ${visible(id)}?`,
    text: () => (
      <>
        <p>Consumers that have not read it go on without it, and try again at once. Those that have read it keep its rows.</p>
        <p>This cannot be undone. The reason is stored with your name and the time, and shown.</p>
      </>
    ),
    verb: 'Leave it out',
    dangerous: true,
    fields: [{ name: 'reason', label: 'Reason', type: 'text', required: true, hint: 'For example: the file is truncated.' }],
    command: (values) => `freshline delivery skip ${quote(id)} ${delivery.number} --reason ${quote(values.reason || 'REASON')}`,
    act: async (values) => {
      await post(`assets/${segment(id)}/deliveries/${delivery.number}/skip`, { reason: values.reason })
      reload()
      return `Delivery ${delivery.number} is left out.`
    },
  })
}
