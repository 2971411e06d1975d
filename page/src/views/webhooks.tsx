import { useSignal } from '@preact/signals'
import { get } from '../api'
import { count, counted, few, firstLine, logText, selection, visible } from '../format'
import { useLoad } from '../load'
import { Body, Empty, Heading, Panel, State, Time, nameClass } from '../parts/basics'
import { Cli } from '../parts/cli'
import { Needs } from '../parts/scope'
import { SecretOnce, type Secret } from '../parts/secret'
import { Table, type Column } from '../parts/table'
import { href, route } from '../router'
import { may } from '../session'
import type { Page, Webhook } from '../types'
import { askAdd } from './webhooks/actions'
import { WebhookDetail } from './webhooks/detail'
import { webhookState } from './webhooks/state'
import './lists.css'

/** Where events are sent, and how that goes. */
export default function WebhooksView() {
  const name = route.value.query.webhook
  return name ? <WebhookDetail key={name} name={name} /> : <Webhooks />
}

function Webhooks() {
  const secret = useSignal<Secret | null>(null)
  const loaded = useLoad('webhooks', (stop) => get<Page<Webhook>>('webhooks', {}, stop), { everyMs: 5000 })
  return (
    <>
      <Heading title="Webhooks" actions={may('admin')
        ? <button type="button" class="primary" onClick={() => askAdd(secret, loaded.reload)}>Add…</button> : undefined} />
      <SecretOnce from={secret} />
      <Body from={loaded} lines={4}>{({ items }) => (items.length === 0 ? <None /> : (
        <Panel title="Receivers" note={note(items)}>
          <Table items={items} columns={COLUMNS} id={(one) => one.id} label="Webhooks by name" />
        </Panel>
      ))}</Body>
      <Needs scope="admin" to="add, change or remove webhooks" />
      <Cli command="freshline webhook list" />
    </>
  )
}

function note(items: readonly Webhook[]): string | undefined {
  const dead = items.reduce((sum, one) => sum + one.dead, 0)
  return dead > 0 ? counted(dead, 'dead letter') : undefined
}

const COLUMNS: readonly Column<Webhook>[] = [
  { title: 'Name', cell: (one) => <a class={nameClass(one.name)} href={href(['webhooks'], { webhook: one.name })}>{visible(one.name)}</a> },
  { title: 'State', cell: (one) => {
    const { state, label } = webhookState(one)
    return <State of={state} label={label} />
  } },
  { title: 'Receiver', wide: true, cell: (one) => (
    <div>
      <span class="mono">{visible(one.url)}</span>
      {one.trouble === null ? null : <div class="bad">{logText(firstLine(one.trouble))}</div>}
    </div>
  ) },
  { title: 'Events', extra: true, cell: (one) => <span class={few([...one.types, ...one.assets]).length <= 32 ? 'nowrap' : undefined}>{selection(one.types, 'all events')}{selection(one.assets, '') === '' ? null : <> of {selection(one.assets, '')}</>}</span> },
  { title: 'Delivered', number: true, cell: (one) => <div>{count(one.delivered)}{one.deliveredAt === null ? null : <div class="quiet"><Time at={one.deliveredAt} /></div>}</div> },
  { title: 'Waiting', number: true, cell: (one) => count(one.waiting) },
  { title: 'Dead', number: true, cell: (one) => (one.dead > 0 ? <strong class="bad">{count(one.dead)}</strong> : '0') },
]

function None() {
  return (
    <Empty title="No webhooks.">
      <p>A webhook sends events to another system, each as one signed HTTP POST, at least once.</p>
      <Cli command="freshline webhook add https://hooks.example/freshline --type 'asset.*'" />
    </Empty>
  )
}
