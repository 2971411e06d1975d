import { count, visible, words } from '../../format'
import { Panel, WorkflowLink } from '../../parts/basics'
import { route, setQuery } from '../../router'
import { duration } from '../../time'
import type { Simulation } from '../../types'
import { change, figures, holds, ordered, partitionsText, verdict, type Figure } from './figures'

const MOST = 20

/** The figures side by side: a bar for what is applied, a bar for what was asked. */
export function Comparison({ answer }: { answer: Simulation }) {
  const compared = answer.after !== null
  return (
    <>
      <p class="plan-sentence" role="status">{verdict(answer)}</p>
      <Legend compared={compared} />
      <dl class="compare-figures">
        {figures(answer.before, answer.after).map((one) => (
          <div key={one.name} class="compare-figure">
            <dt title={one.meaning}>{one.name}</dt>
            <dd><Bars before={one.before} after={one.after} show={one.show} compared={compared} /></dd>
            {compared ? <dd class={`figure-change ${better(one)}`}>{change(one)}</dd> : null}
          </div>
        ))}
      </dl>
    </>
  )
}

function better({ before, after, lessIsBetter }: Figure): string {
  if (!lessIsBetter || before === null || after === null || before === after) return 'quiet'
  return after < before ? 'good' : 'bad'
}

const Legend = ({ compared }: { compared: boolean }) => (
  <p class="legend">
    <span class="legend-before">as applied</span>
    {compared ? <span class="legend-after">with the change</span> : null}
  </p>
)

/** Two bars on one scale, each with its value. The values are text, so the bars say nothing to a screen reader. */
function Bars({ before, after, show, compared }: {
  before: number | null
  after: number | null
  show: (value: number) => string
  compared: boolean
}) {
  const most = Math.max(before ?? 0, after ?? 0)
  const one = (value: number | null, name: string, kind: string) => (
    <span class="bar-line">
      <span class="hidden-text">{name}: </span>
      <span class="bar-track"><span class={`bar-fill ${kind}`} style={{ width: `${most === 0 || value === null ? 0 : Math.max(value > 0 ? 0.5 : 0, (value / most) * 100)}%` }} /></span>
      <span class="bar-value">{value === null ? '–' : show(value)}</span>
    </span>
  )
  return <span class="bars">{one(before, 'as applied', 'bar-before')}{compared ? one(after, 'with the change', 'bar-after') : null}</span>
}

/** The same per workflow: how often it runs, what it costs, and how late it is. */
export function Workflows({ answer }: { answer: Simulation }) {
  if (answer.workflows.length === 0) return null
  const all = route.value.query.rows === 'all'
  const rows = ordered(answer)
  const compared = answer.after !== null
  const time = (value: number): string => (value === 0 ? '0s' : duration(value * 1000))
  return (
    <Panel title="By workflow" note={compared ? 'changed ones first, then the largest differences' : 'the most runs first'}>
      <div class="table-box" tabIndex={0} role="region" aria-label="By workflow">
        <table class="simulate-table">
          <thead><tr><th scope="col">Workflow</th><th scope="col">Runs</th><th scope="col">Time of runs</th><th scope="col">Lag, p95</th></tr></thead>
          <tbody>
            {(all ? rows : rows.slice(0, MOST)).map((one) => (
              <tr key={one.slug}>
                <td data-label="Workflow"><WorkflowLink slug={one.slug} />{one.changed ? <> <span class="badge">changed</span></> : null}</td>
                <td data-label="Runs"><Bars before={one.before?.runs ?? 0} after={one.after?.runs ?? 0} show={count} compared={compared} /><Partitions of={one} /></td>
                <td data-label="Time of runs"><Bars before={one.before?.runSeconds ?? 0} after={one.after?.runSeconds ?? 0} show={time} compared={compared} /></td>
                <td data-label="Lag, p95"><Bars before={one.before?.lagSeconds?.p95 ?? null} after={one.after?.lagSeconds?.p95 ?? null} show={time} compared={compared} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {all || rows.length <= MOST ? null : <p class="list-end"><button type="button" onClick={() => setQuery({ rows: 'all' })}>Show all {count(rows.length)}</button></p>}
    </Panel>
  )
}

/** Of how many partitions the runs were; nothing of a workflow without any. */
function Partitions({ of: { before, after } }: { of: Simulation['workflows'][number] }) {
  const text = partitionsText(before?.partitions ?? null, after?.partitions ?? null)
  return text === '' ? null : <span class="quiet simulate-partitions">{text}</span>
}

export function Holds({ answer }: { answer: Simulation }) {
  const rows = holds(answer)
  if (rows.length === 0) return null
  const compared = answer.after !== null
  return (
    <Panel title="Holds" note="how often a workflow with a cause had to wait">
      <dl class="compare-figures">
        {rows.map(([reason, before, after]) => (
          <div key={reason} class="compare-figure">
            <dt>{visible(words(reason))}</dt>
            <dd><Bars before={before} after={after} show={count} compared={compared} /></dd>
            {compared ? <dd class="figure-change quiet">{after === before ? 'the same' : `${after! > before ? '+' : '−'}${count(Math.abs(after! - before))}`}</dd> : null}
          </div>
        ))}
      </dl>
    </Panel>
  )
}
