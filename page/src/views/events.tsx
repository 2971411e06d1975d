import { useListing } from '../listing'
import { any } from '../load'
import { quote, visible } from '../format'
import { Empty, Heading, RunLink, Time, nameClass } from '../parts/basics'
import { Cli } from '../parts/cli'
import { EVENT_TYPES, eventSubject, eventText } from '../parts/event-text'
import { Filters, PERIODS, usePeriod, type Filter } from '../parts/filters'
import { ListingTable, type Column } from '../parts/table'
import { href, route } from '../router'
import type { FreshlineEvent } from '../types'
import EventView from './event'
import './lists.css'

const FILTERS: readonly Filter[] = [
  { name: 'type', label: 'Type', options: EVENT_TYPES },
  { name: 'subject', label: 'Subject', placeholder: 'its name' },
  { name: 'asset', label: 'About', placeholder: 'an asset' },
  { name: 'since', label: 'In', options: PERIODS },
]

/** All events, newest first; or one, if the address names it. */
export default function EventsView() {
  return route.value.path.length > 1 ? <EventView /> : <Events />
}

function Events() {
  const { query } = route.value
  const since = usePeriod(query.since)
  const listing = useListing<FreshlineEvent>('events', {
    type: query.type, subject: query.subject, asset: query.asset, since,
  }, (one) => one.id, { events: any })
  const filtered = FILTERS.some((one) => (query[one.name] ?? '') !== '')
  return (
    <>
      <Heading title="Events" />
      <Filters filters={FILTERS} />
      <section class="panel">
        <h2 class="hidden-text">All events</h2>
        <ListingTable listing={listing} columns={COLUMNS} id={(one) => one.id} label="Events, newest first"
          empty={filtered ? <Empty title="No event matches the filters." /> : (
            <Empty title="Nothing happened yet.">
              <p>Every change is an event: data that was produced, runs that began and ended. The first one is usually a report:</p>
              <Cli command="freshline report SOURCE" />
            </Empty>
          )} />
      </section>
      <Cli command={eventsCommand(query)} />
    </>
  )
}

const COLUMNS: readonly Column<FreshlineEvent>[] = [
  { title: 'Position', number: true, cell: (one) => (
    <a class="id" href={href(['events', one.id])} title={`event ${one.id}`}>{one.position ?? 'new'}</a>
  ) },
  { title: 'Time', cell: (one) => <Time at={one.time} /> },
  { title: 'Type', cell: (one) => <a class="nowrap" href={href(['events', one.id])}>{visible(one.type)}</a> },
  { title: 'Subject', cell: (one) => <Subject event={one} /> },
  { title: 'What', wide: true, cell: (one) => <What event={one} /> },
  { title: 'Run', extra: true, cell: (one) => <RunLink id={typeof one.data.runId === 'string' ? one.data.runId : null} /> },
]

function What({ event }: { event: FreshlineEvent }) {
  const text = eventText(event)
  return text === '' ? <span class="quiet">–</span> : <span>{text}</span>
}

export function Subject({ event }: { event: FreshlineEvent }) {
  const key = event.data.partitionKey
  const partition = typeof key === 'string' ? key : ''
  const asset = event.type.startsWith('asset.') || event.type.startsWith('backfill.')
  const address = asset ? href(['assets', event.subject], { partition }) : href(['workflows', event.subject])
  const name = visible(eventSubject(event))
  return <a class={nameClass(name)} href={address}>{name}</a>
}

function eventsCommand(query: Readonly<Record<string, string>>): string {
  const parts = (['type', 'subject', 'asset', 'since'] as const).map((name) => (query[name] ? ` --${name} ${quote(query[name])}` : ''))
  return `freshline events${parts.join('')}`
}
