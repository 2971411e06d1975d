import { get } from '../../api'
import { useLoad } from '../../load'
import { Panel } from '../../parts/basics'
import { setQuery } from '../../router'
import { fromField, toField } from '../../time'
import type { Page } from '../../types'
import { DEFAULT_CONCURRENCY, DEFAULT_PRIORITY, type Form } from './request'

const ONLY = [
  ['', 'all'], ['missing', 'missing: without a success'], ['failed', 'failed'], ['stale', 'stale: not up to date'],
] as const

/** The fields of a backfill. A field takes effect when it is left or Enter is pressed, so that a dry run follows it. */
export function Options({ form }: { form: Form }) {
  const known = useLoad('names of assets', (stop) => get<Page<{ kind: string; name: string }>>('names', { limit: 1000 }, stop))
  return (
    <Panel title="What to compute">
      <form class="backfill-form" aria-label="The backfill" onSubmit={(event) => event.preventDefault()}>
        <datalist id="backfill-assets">
          {(known.data?.items ?? []).filter((one) => one.kind === 'asset').map((one) => <option key={one.name} value={one.name} />)}
        </datalist>
        <Text form={form} name="asset" label="Asset" list="backfill-assets" />
        <Text form={form} name="from" label="From" placeholder="the first" />
        <Text form={form} name="to" label="To" placeholder="the newest" />
        <Text form={form} name="keys" label="Or single keys" placeholder="2024-01-31,2024-02-29" hint="Instead of a range." />
        <Choice form={form} name="only" label="Which of them" options={ONLY} />
        <Choice form={form} name="order" label="Begin with" options={[['', 'the newest'], ['oldest', 'the oldest']]} />
        <Text form={form} name="concurrency" label="Runs at a time" placeholder={String(DEFAULT_CONCURRENCY)} type="number" />
        <Text form={form} name="batch" label="Partitions per run" placeholder="1" type="number" hint="More than 1 needs steps with batch: true." />
        <Text form={form} name="priority" label="Priority" placeholder={String(DEFAULT_PRIORITY)} type="number" hint="Among backfills; a lower number comes first." />
        <NotBefore form={form} />
        <Flag form={form} name="upstream" label="Also what they are computed from" />
        <Flag form={form} name="downstream" label="Also what is computed from them" />
        <Flag form={form} name="duringQuietHours" label="Also in quiet hours" />
        <Flag form={form} name="partial" label="Leave out inputs that are missing or were removed" />
      </form>
    </Panel>
  )
}

function Text(props: {
  form: Form
  name: string
  label: string
  placeholder?: string
  hint?: string
  type?: 'text' | 'number'
  list?: string
}) {
  const { form, name, label, placeholder = '', hint, type = 'text' } = props
  const id = `backfill-${name}`
  const value = form[name] ?? ''
  // Keys and a range exclude each other.
  const also = name === 'keys' ? { from: '', to: '' } : name === 'from' || name === 'to' ? { keys: '' } : {}
  const take = (text: string): void => setQuery({ ...also, [name]: text.trim() })
  const shared = {
    id, value, placeholder, autocomplete: 'off', spellcheck: false,
    onChange: (event: { currentTarget: HTMLInputElement }) => take(event.currentTarget.value),
  } as const
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {type === 'number' ? <input {...shared} type="number" min={name === 'priority' ? 0 : 1} />
        : <input {...shared} type="text" {...(props.list === undefined ? {} : { list: props.list })} />}
      {hint === undefined ? null : <span class="hint">{hint}</span>}
    </div>
  )
}

function Choice({ form, name, label, options }: { form: Form; name: string; label: string; options: readonly (readonly [string, string])[] }) {
  const id = `backfill-${name}`
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select id={id} value={form[name] ?? ''} onChange={(event) => setQuery({ [name]: event.currentTarget.value })}>
        {options.map(([value, text]) => <option key={value} value={value}>{text}</option>)}
      </select>
    </div>
  )
}

function Flag({ form, name, label }: { form: Form; name: string; label: string }) {
  const id = `backfill-${name}`
  return (
    <div class="field field-check">
      <label for={id}>{label}</label>
      <input id={id} type="checkbox" checked={form[name] === '1'} onChange={(event) => setQuery({ [name]: event.currentTarget.checked ? '1' : '' })} />
    </div>
  )
}

function NotBefore({ form }: { form: Form }) {
  const time = Date.parse(form.notBefore ?? '')
  return (
    <div class="field">
      <label for="backfill-not-before">Not before</label>
      <input id="backfill-not-before" type="datetime-local" value={Number.isNaN(time) ? '' : toField(time)}
        onChange={(event) => setQuery({ notBefore: fromField(event.currentTarget.value) ?? '' })} />
      <span class="hint">In your time zone. Empty: at once.</span>
    </div>
  )
}
