import { useListing } from '../listing'
import { any } from '../load'
import { quote, short, visible, words } from '../format'
import { Empty, Heading, Time } from '../parts/basics'
import { Cli } from '../parts/cli'
import { Filters, type Filter } from '../parts/filters'
import { Needs } from '../parts/scope'
import { ListingTable, type Column } from '../parts/table'
import { href, route } from '../router'
import { may } from '../session'
import type { AuditEntry } from '../types'
import { differences, subjectAt } from './audit/changes'
import './lists.css'

const FILTERS: readonly Filter[] = [{ name: 'subject', label: 'Subject', placeholder: 'asset, workflow or run' }]

/** Who changed what: every change by a person or a program, with the values before and after. */
export default function AuditView() {
  const { subject } = route.value.query
  return (
    <>
      <Heading title="Audit" />
      {may('admin') ? <Changes /> : (
        <>
          <Empty title="The audit says who changed what.">
            <p>It has every change over HTTP, Redis or the command line, with the values before and after.</p>
          </Empty>
          <Needs scope="admin" to="read the audit, also on this machine" />
        </>
      )}
      <Cli command={`freshline audit${subject ? ` ${quote(subject)}` : ''}`} />
    </>
  )
}

function Changes() {
  const { subject } = route.value.query
  const listing = useListing<AuditEntry>('audit', { subject }, (one) => one.id, { events: any, everyMs: 5000 })
  return (
    <>
      <Filters filters={FILTERS} />
      <section class="panel">
        <h2 class="hidden-text">Changes</h2>
        <ListingTable listing={listing} columns={COLUMNS} id={(one) => one.id} label="Changes, newest first"
          empty={<Empty title={subject ? 'Nobody changed this.' : 'Nobody changed anything yet.'}>
            <p>Automatic changes are in <a href={href(['events'])}>events</a> and <a href={href(['decisions'])}>decisions</a>.</p>
          </Empty>} />
      </section>
    </>
  )
}

const COLUMNS: readonly Column<AuditEntry>[] = [
  { title: 'Time', cell: (one) => <Time at={one.at} /> },
  { title: 'Who', cell: (one) => visible(one.who) },
  { title: 'What', cell: (one) => <span class="nowrap">{visible(words(one.what.replaceAll('_', ' ')))}</span> },
  { title: 'Subject', cell: (one) => <Subject entry={one} /> },
  { title: 'Before and after', wide: true, cell: (one) => <Difference entry={one} /> },
]

function Subject({ entry }: { entry: AuditEntry }) {
  const place = subjectAt(entry)
  const text = /^[0-9a-f-]{36}$/.test(entry.subject) ? short(entry.subject) : entry.subject
  return place === null ? <span>{visible(text)}</span> : <a class="name" href={place}>{visible(text)}</a>
}

function Difference({ entry }: { entry: AuditEntry }) {
  const found = differences(entry.before, entry.after)
  if (found.length === 0) return <span class="quiet">–</span>
  return (
    <ul class="plain">
      {found.map((one) => (
        <li key={one.name}>
          <span class="quiet">{visible(one.name)}: </span>
          {one.before === null ? null : <><span class="diff-old">{visible(one.before)}</span> → </>}
          <span class={one.after.length <= 24 ? 'nowrap' : undefined}>{visible(one.after)}</span>
        </li>
      ))}
    </ul>
  )
}
