import { get } from '../api'
import { count, few, selection, visible, words } from '../format'
import { useLoad } from '../load'
import { Body, Empty, Heading, Panel, State, nameClass } from '../parts/basics'
import { Cli } from '../parts/cli'
import { Needs } from '../parts/scope'
import { Table, type Column } from '../parts/table'
import { href, route } from '../router'
import { may } from '../session'
import type { Alert, Page } from '../types'
import { askAdd } from './alerts/actions'
import { AlertDetail } from './alerts/detail'
import './lists.css'

/** Who is told what is wrong. */
export default function AlertsView() {
  const name = route.value.query.alert
  return name ? <AlertDetail key={name} name={name} /> : <Alerts />
}

function Alerts() {
  const loaded = useLoad('alerts', (stop) => get<Page<Alert>>('alerts', {}, stop), { everyMs: 5000 })
  return (
    <>
      <Heading title="Alerts" actions={may('admin')
        ? <button type="button" class="primary" onClick={() => askAdd(loaded.reload)}>Add…</button> : undefined} />
      <Body from={loaded} lines={4}>{({ items }) => (items.length === 0 ? <None /> : (
        <Panel title="Rules">
          <Table items={items} columns={COLUMNS} id={(one) => one.id} label="Rules by name" />
        </Panel>
      ))}</Body>
      <Needs scope="admin" to="add, change or remove rules" />
      <Cli command="freshline alert list" />
    </>
  )
}

export function AlertState({ one }: { one: Alert }) {
  if (one.paused) return <State of="paused" />
  if (one.open > 0) return <State of="open" label={`${count(one.open)} open`} />
  return <State of="ok" label="nothing open" />
}

const COLUMNS: readonly Column<Alert>[] = [
  { title: 'Rule', cell: (one) => <a class={nameClass(one.name)} href={href(['alerts'], { alert: one.name })}>{visible(one.name)}</a> },
  { title: 'State', cell: (one) => <AlertState one={one} /> },
  { title: 'Reports', wide: true, cell: (one) => (
    <div>
      {visible(few(one.on.map(words), 6))} of {selection(one.assets, 'all assets')}
      {one.trouble === null ? null : <div class="bad">{visible(one.trouble)}</div>}
    </div>
  ) },
  { title: 'To', cell: (one) => <span class="mono">{visible(few(one.to))}</span> },
  { title: 'Sent', number: true, cell: (one) => count(one.sent) },
  { title: 'Waiting', number: true, cell: (one) => count(one.waiting) },
  { title: 'Dead', number: true, cell: (one) => (one.dead > 0 ? <strong class="bad">{count(one.dead)}</strong> : '0') },
  { title: 'Declared by', extra: true, cell: (one) => (one.project === null ? 'a command' : `project ${visible(one.project)}`) },
]

function None() {
  return (
    <Empty title="No rules.">
      <p>A rule tells people what is wrong: one message for each cause, and one when all is fine again, by mail, chat, pager or HTTP.
        It is declared in <code>freshline.toml</code> under <code>[alerts.NAME]</code>, or added by a command:</p>
      <Cli command="freshline alert add oncall --on failing --on overdue --to-env ONCALL_URL" />
    </Empty>
  )
}
