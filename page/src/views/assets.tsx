import { useComputed, useSignal } from '@preact/signals'
import { useMemo, useRef } from 'preact/hooks'
import { count, counted, quote } from '../format'
import { href, route } from '../router'
import { Empty, Failed, Heading, Panel, Skeleton, State } from '../parts/basics'
import { Cli } from '../parts/cli'
import { Filters } from '../parts/filters'
import { now } from '../time'
import { useAssets } from './assets/data'
import { AssetList } from './assets/list'
import { chosen, counts, grouped, inState, matcher, summary, toRows, type Row } from './assets/rows'
import { difference, type Difference } from './assets/still'
import './assets.css'

const FILTERS = [
  { name: 'q', label: 'Name', placeholder: 'sales or sales.*' },
  { name: 'group', label: 'Groups', options: [['', 'none'], ['1', 'first part of the name'], ['2', 'first two parts']] },
  { name: 'order', label: 'Order', options: [['', 'by name'], ['attention', 'attention first']] },
] as const

/** Every asset with its state. Nothing moves while somebody reads: what would change the order waits for a button. */
export default function AssetsView() {
  const { query } = route.value
  const found = useAssets()
  // Ages move with the clock; the rows need not be made again at each of its steps.
  const moment = useComputed(() => Math.floor(now.value / 10_000)).value
  const rows = useMemo(
    () => (found.states === null ? null : toRows(found.states, found.details, now.peek())),
    [found.states, found.details, moment],
  )
  const still = useStill(rows, query, found.complete)
  const closed = query.closed ?? ''
  const depth = Number(query.group ?? '') || 0
  const entries = useMemo(
    () => grouped(still.rows, depth, new Set(closed.split(',').filter(Boolean).map((one) => (one === '-' ? '' : one)))),
    [still.rows, depth, closed],
  )
  return (
    <>
      <Heading title="Assets" />
      {found.error === null ? null : <Failed error={found.error} retry={found.reload} />}
      {rows === null ? <Skeleton lines={8} /> : rows.length === 0 ? <NoAssets /> : (
        <>
          <p class="asset-summary" aria-live="off">{summary(rows)}.</p>
          <States rows={rows} />
          <Filters filters={FILTERS} />
          <Cli command={command(query)} />
          <Panel title={still.rows.length === rows.length ? counted(rows.length, 'asset')
            : `${count(still.rows.length)} of ${counted(rows.length, 'asset')}`}>
            <Changes difference={still.difference} update={still.update} />
            {still.rows.length === 0 ? <NoMatch /> : <div class="edge"><AssetList entries={entries} active={found.active} complete={found.complete} /></div>}
          </Panel>
        </>
      )}
    </>
  )
}

interface Still {
  readonly rows: readonly Row[]
  readonly difference: Difference | null
  readonly update: () => void
}

/** Keep which rows are shown, and in which order, until the question changes or the reader asks for the new order. */
function useStill(rows: readonly Row[] | null, query: Readonly<Record<string, string>>, complete: boolean): Still {
  const kept = useRef<{ key: string; ids: readonly string[] } | null>(null)
  const asked = useSignal(0)
  const key = JSON.stringify([query.q, query.state, query.order])
  return useMemo(() => {
    const all = rows ?? []
    const wanted = chosen(all, query)
    const ids = wanted.map((row) => row.id)
    // While details are read for the first time, the order by attention is not known yet.
    if (kept.current === null || kept.current.key !== key || !complete) kept.current = { key, ids }
    const byId = new Map(all.map((row) => [row.id, row]))
    return {
      rows: kept.current.ids.flatMap((id) => byId.get(id) ?? []),
      difference: difference(kept.current.ids, ids),
      update: () => {
        kept.current = null
        asked.value += 1
      },
    }
  }, [rows, key, complete, asked.value])
}

function Changes({ difference: found, update }: { difference: Difference | null; update: () => void }) {
  if (found === null) return null
  const parts = [
    found.joined === 0 ? '' : `${counted(found.joined, 'more asset')} ${found.joined === 1 ? 'matches' : 'match'}`,
    found.left === 0 ? '' : `${count(found.left)} ${found.left === 1 ? 'matches' : 'match'} no more`,
    found.joined + found.left === 0 ? 'the order has changed' : '',
  ].filter((part) => part !== '')
  return <button type="button" class="new-items" onClick={update}>{parts.join(', ')} — show</button>
}

/** The states with their numbers; each is a link that shows only these. */
function States({ rows }: { rows: readonly Row[] }) {
  const { query } = route.value
  const chosenState = query.state ?? ''
  const q = query.q ?? ''
  const named = useMemo(() => {
    const matches = matcher(q)
    return rows.filter((row) => matches(row.id))
  }, [rows, q])
  const number = (state: string): number => named.filter((row) => inState(row, state)).length
  const present = counts(named).map(([state]) => state)
  const overdue = number('overdue')
  const choices = ['', 'attention', ...present, ...(overdue > 0 || chosenState === 'overdue' ? ['overdue'] : [])]
  if (chosenState !== '' && !choices.includes(chosenState)) choices.push(chosenState)
  return (
    <nav class="asset-states" aria-label="States">
      {choices.map((state) => (
        <a key={state} class="chip" href={href(['assets'], { ...query, state })} aria-current={state === chosenState ? 'true' : undefined}>
          {state === '' ? 'all' : state === 'attention' ? 'need attention' : <State of={state} />}
          <span class="number">{count(number(state))}</span>
        </a>
      ))}
    </nav>
  )
}

function NoMatch() {
  const { query } = route.value
  return (
    <Empty title="No asset matches.">
      <p>
        A text such as <code>sales</code> is searched for in names. A pattern such as <code>sales.*</code> must match the
        whole name. <a href={href(['assets'], { group: query.group })}>Show all assets</a>
      </p>
    </Empty>
  )
}

function NoAssets() {
  return (
    <Empty title="There are no assets yet.">
      <p>
        An asset is a table or a file that a workflow produces, or a source that is reported. Write definitions into a
        project, then run <code>freshline apply</code>. <code>freshline init shop</code> makes a project that works.
      </p>
    </Empty>
  )
}

/** Return the command that shows the same. A state is no option of `status`, so its JSON is filtered. */
function command(query: Readonly<Record<string, string>>): string {
  const text = query.q ?? ''
  const pattern = text === '' || /[*?[]/.test(text) ? text : `*${text}*`
  const name = pattern === '' ? '' : ` ${quote(pattern)}`
  const { state } = query
  if (state === undefined || state === 'overdue') return `freshline status${name}`
  const all = state === 'retired' ? ' --all' : ''
  const condition = state === 'attention' ? '.state | IN("failing", "missing", "stale")' : `.state == ${JSON.stringify(state)}`
  return `freshline status${name}${all} --json | jq ${quote(`.assets[] | select(${condition}) | .assetId`)}`
}
