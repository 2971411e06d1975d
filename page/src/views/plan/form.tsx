import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'
import { get, segment } from '../../api'
import { visible } from '../../format'
import { useLoad } from '../../load'
import { Failed, Panel, Skeleton } from '../../parts/basics'
import { href, route, setQuery } from '../../router'
import { may } from '../../session'
import type { Workflow } from '../../types'
import { policyOf, type Policy } from '../workflow/policy'
import { changesOf, FIELDS, type PolicyField } from './fields'
import { NameField } from './name'

const DAYS = [['24h', 'the last day'], ['3d', 'the last 3 days'], ['7d', 'the last 7 days'], ['14d', 'the last 14 days'], ['30d', 'the last 30 days']] as const
const GROUPS = [...new Set(FIELDS.map((field) => field.group))]

/** Change the question. It is asked again only when somebody says so: a replay takes seconds. */
const change = (query: Record<string, string>): void => setQuery({ ...query, play: '' })

/** The question: how much time, which workflow, and what would be different. */
export function PolicyForm({ problems, play, busy, days }: {
  problems: Readonly<Record<string, string>>
  play: () => void
  busy: boolean
  days: string
}) {
  const { query } = route.value
  const slug = query.workflow ?? ''
  const changes = changesOf(query)
  const wrong = Object.keys(problems).length > 0
  const known = DAYS.some(([value]) => value === days)
  return (
    <Panel title="The question" class="simulate-form">
      <form class="stack" onSubmit={(event) => {
        event.preventDefault()
        play()
      }}>
        <Field label="Replay">
          {(id) => (
            <select id={id} value={days} onChange={(event) => change({ since: event.currentTarget.value === '7d' ? '' : event.currentTarget.value })}>
              {known ? null : <option value={days}>the last {days}</option>}
              {DAYS.map(([value, label]) => <option key={value} value={value}>{label}</option>)}
            </select>
          )}
        </Field>
        <div class="simulate-pair">
          <Field label="Slots">{(id) => <input id={id} type="number" min={1} value={query.slots ?? ''} placeholder="4" onChange={(event) => change({ slots: event.currentTarget.value })} />}</Field>
          <Field label="Seed">{(id) => <input id={id} type="number" min={0} value={query.seed ?? ''} placeholder="0" onChange={(event) => change({ seed: event.currentTarget.value })} />}</Field>
        </div>
        <NameField label="Workflow" kind="workflow" value={slug} placeholder="shop-totals" take={(name) => setQuery({ workflow: name })} />
        <Changed changes={changes} current={slug} />
        {slug === '' ? <p class="hint">Choose a workflow to see and change its policy.</p> : <Fields slug={slug} problems={problems} />}
        <div class="simulate-play">
          <button type="submit" class="primary" disabled={busy || wrong || !may('operate')}>{busy ? 'Replaying…' : 'Replay'}</button>
          <span class="hint">{wrong ? 'Correct the marked fields first.' : Object.keys(changes).length === 0 ? 'Without a change it shows the policies that are applied.' : 'Definitions are not written.'}</span>
        </div>
      </form>
    </Panel>
  )
}

function Field({ label, hint, children }: { label: string; hint?: string; children: (id: string) => ComponentChildren }) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(id)}
      {hint === undefined ? null : <span class="hint">{hint}</span>}
    </div>
  )
}

/** The workflows with changes; each can be edited again, or left as it is. */
function Changed({ changes, current }: { changes: ReturnType<typeof changesOf>; current: string }) {
  const slugs = Object.keys(changes)
  if (slugs.length === 0) return null
  return (
    <ul class="plain simulate-changed" aria-label="Changed workflows">
      {slugs.map((slug) => (
        <li key={slug} class="row">
          <a href={href(['plan'], { ...route.value.query, workflow: slug })} aria-current={slug === current ? 'true' : undefined}>{visible(slug)}</a>
          <span class="quiet">{Object.keys(changes[slug]!).length} changed</span>
          <button type="button" class="small" aria-label={`Leave as it is: ${slug}`} onClick={() =>
            change(Object.fromEntries(Object.keys(changes[slug]!).map((name) => [`${slug}.${name}`, ''])))}>Leave as it is</button>
        </li>
      ))}
    </ul>
  )
}

function Fields({ slug, problems }: { slug: string; problems: Readonly<Record<string, string>> }) {
  const found = useLoad<Workflow>(`policy of ${slug}`, (stop) => get<Workflow>(`workflows/${segment(slug)}`, {}, stop), {
    events: (event) => event.type === 'workflow.definition.updated' && event.subject === slug,
  })
  if (found.error !== null) return <Failed error={found.error} retry={found.reload} />
  if (found.data === null) return <Skeleton lines={6} />
  const policy = policyOf(found.data.definition)
  // On a narrow screen the answer is below all the fields, so only the groups with changes are open.
  const wide = matchMedia('(min-width: 901px)').matches
  const changed = FIELDS.filter((field) => (route.value.query[`${slug}.${field.name}`] ?? '') !== '')
  return (
    <>
      {policy.automatic ? null : <p class="hint">It runs only on request now. A field such as “Run on updates” makes it automatic.</p>}
      {GROUPS.map((group) => (
        <details key={group} class="simulate-group" open={wide || changed.some((field) => field.group === group)}>
          <summary>{group}</summary>
          <div class="simulate-fields" role="group" aria-label={group}>
            {group === 'Freshness of its outputs' && policy.outputs.length > 1
              ? <p class="hint">A change is made in all outputs that have a freshness, or in all if none has.</p> : null}
            {FIELDS.filter((field) => field.group === group).map((field) => (
            <Entry key={`${slug}.${field.name}`} field={field} slug={slug} policy={policy} problem={problems[`${slug}.${field.name}`]} />
          ))}</div>
        </details>
      ))}
    </>
  )
}

function Entry({ field, slug, policy, problem }: { field: PolicyField; slug: string; policy: Policy; problem: string | undefined }) {
  const id = useId()
  const key = `${slug}.${field.name}`
  const value = route.value.query[key] ?? ''
  const applied = field.now(policy)
  // The same value as before is no change.
  const take = (text: string): void => change({ [key]: text.trim() === applied ? '' : text.trim() })
  return (
    <div class={value === '' ? 'simulate-field' : 'simulate-field simulate-new'}>
      <label for={id}>{field.label}</label>
      {field.options === undefined ? (
        <input id={id} type="text" value={value} placeholder={applied} spellcheck={false} autocomplete="off" aria-describedby={`${id}-hint`}
          aria-invalid={problem !== undefined} onChange={(event) => take(event.currentTarget.value)} />
      ) : (
        <select id={id} value={value} aria-describedby={`${id}-hint`} onChange={(event) => take(event.currentTarget.value)}>
          <option value="">{applied} (as applied)</option>
          {field.options.filter((one) => one !== applied).map((one) => <option key={one} value={one}>{one}</option>)}
        </select>
      )}
      <span id={`${id}-hint`} class={problem === undefined ? 'hint' : 'hint bad'}>
        {problem === undefined ? value === '' ? field.hint : <>now {visible(applied)}</> : `${problem.charAt(0).toUpperCase()}${problem.slice(1)}.`}
      </span>
    </div>
  )
}
