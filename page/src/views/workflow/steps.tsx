import { quote, visible } from '../../format'
import { AssetLink, Panel, State } from '../../parts/basics'
import type { JsonObject } from '../../types'
import { objects, text, type Policy } from './policy'
import { exact } from './yaml'

/** What the workflow reads from outside, and what it produces, each with its state. */
export function Assets({ policy, states }: { policy: Policy; states: Readonly<Record<string, string>> }) {
  return (
    <div class="columns">
      <Panel title="Consumes" note={policy.inputs.length === 0 ? 'nothing from outside' : undefined}>
        {policy.inputs.length === 0 ? <p class="quiet">It runs by time, or on request.</p> : (
          <ul class="plain lines">
            {policy.inputs.map((one) => (
              <li key={one.assetId}>
                <StateOf state={states[one.assetId]} /><AssetLink id={one.assetId} />
                <span class="quiet">{one.triggers ? 'triggers' : 'is only read'}{one.maxAgeMs === null ? '' : `, at most ${exact(one.maxAgeMs)} old`}</span>
              </li>
            ))}
          </ul>
        )}
      </Panel>
      <Panel title="Produces">
        <ul class="plain lines">
          {policy.outputs.map((one) => (
            <li key={one.assetId}>
              <StateOf state={states[one.assetId]} /><AssetLink id={one.assetId} />
              <span class="quiet">{freshnessText(one.freshness)}</span>
            </li>
          ))}
        </ul>
      </Panel>
    </div>
  )
}

const StateOf = ({ state }: { state: string | undefined }) =>
  <span class="line-state">{state === undefined ? <span class="quiet">unknown</span> : <State of={state} />}</span>

/** Return when an output expires, and what it promises. */
export function freshnessText(freshness: JsonObject | null): string {
  if (freshness === null) return 'never expires'
  const { ttlMs, cadenceMs, offsetMs, cron, timezone, maxAgeMs } = freshness
  const parts = [
    typeof ttlMs === 'number' ? `expires ${exact(ttlMs)} after it was produced` : '',
    typeof cadenceMs === 'number' ? `expires every ${exact(cadenceMs)}${typeof offsetMs === 'number' && offsetMs > 0 ? ` plus ${exact(offsetMs)}` : ''}` : '',
    typeof cron === 'string' ? `expires at "${cron}" (${typeof timezone === 'string' ? timezone : 'UTC'})` : '',
    typeof maxAgeMs === 'number' ? `promises at most ${exact(maxAgeMs)}` : '',
  ].filter((part) => part !== '')
  return parts.length === 0 ? 'never expires' : visible(parts.join('; '))
}

export function Steps({ definition }: { definition: JsonObject }) {
  const steps = objects(definition.steps)
  return (
    <Panel title="Steps" note="run in this order, or beside each other where none needs another">
      <ol class="plain stack">
        {steps.map((step, index) => <Step key={text(step.id) ?? index} step={step} />)}
      </ol>
    </Panel>
  )
}

function Step({ step }: { step: JsonObject }) {
  const job: JsonObject = typeof step.job === 'object' && step.job !== null && !Array.isArray(step.job) ? step.job : {}
  const sql = text(job.sql)
  const names = (value: JsonObject[]): string => value.map((one) => visible(text(one.assetId) ?? '')).join(', ') || 'nothing'
  const after = Array.isArray(step.dependsOn) ? step.dependsOn.filter((one): one is string => typeof one === 'string') : []
  return (
    <li class="step">
      <p class="row"><strong>{visible(text(step.id) ?? '')}</strong><span class="badge">{visible(text(job.kind) ?? 'job')}</span>
        {text(job.entrypoint) === null ? null : <code>{visible(text(job.entrypoint)!)}</code>}
        {typeof step.timeoutMs === 'number' ? <span class="quiet">fails after {exact(step.timeoutMs)}</span> : null}
      </p>
      <p class="quiet">reads {names(objects(step.consumes))}; produces {names(objects(step.produces))}{after.length > 0 ? `; after ${after.map(visible).join(', ')}` : ''}</p>
      {sql === null ? null : <details><summary>SQL</summary><pre class="box">{sql.split('\n').map(visible).join('\n')}</pre></details>}
    </li>
  )
}

/** Return the parameters that a workflow declares, as lines that the question before a run takes. */
export const parameterLines = (definition: JsonObject): string => {
  const declared = definition.parameters
  if (typeof declared !== 'object' || declared === null || Array.isArray(declared)) return ''
  return Object.entries(declared).map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`).join('\n')
}

/** Return the parameters of lines such as `day=2026-01-05`: a value is JSON, else text, as in `freshline run`. */
export function parseParameters(lines: string): JsonObject {
  const found: JsonObject = {}
  for (const line of lines.split('\n').map((one) => one.trim()).filter((one) => one !== '')) {
    const cut = line.indexOf('=')
    if (cut < 1) throw new Error(`'${line}' is no parameter: write NAME=VALUE, one per line.`)
    const value = line.slice(cut + 1)
    try {
      found[line.slice(0, cut)] = JSON.parse(value) as JsonObject[string]
    } catch {
      found[line.slice(0, cut)] = value
    }
  }
  return found
}

/** Return the same parameters as options of the command. */
export const parameterOptions = (lines: string): string =>
  lines.split('\n').map((one) => one.trim()).filter((one) => one !== '').map((one) => ` --param ${quote(one)}`).join('')
