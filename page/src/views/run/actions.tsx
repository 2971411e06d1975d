import { post, segment } from '../../api'
import { named, quote, short, visible } from '../../format'
import { RunLink } from '../../parts/basics'
import { ask } from '../../parts/confirm'
import { onceKey } from '../../parts/requests'
import { go } from '../../router'
import { may } from '../../session'
import type { JsonObject, Run, RunDetail } from '../../types'

/** What an operator can do with a run. */
export function Actions({ run, changed }: { run: Run; changed: () => void }) {
  if (!may('operate')) return null
  const active = run.status === 'queued' || run.status === 'running'
  return (
    <>
      {active ? <button type="button" class="danger" onClick={() => askCancel(run, changed)}>Cancel…</button> : null}
      <button type="button" onClick={() => askAgain(run)}>Run again…</button>
    </>
  )
}

function askCancel(run: Run, changed: () => void): void {
  const name = named(run.workflowSlug, run.partitionKey)
  ask({
    title: `Cancel this run of ${visible(name)}?`,
    text: () => (
      <>
        <p>{run.status === 'queued' ? 'It is queued and ends at once.'
          : 'It is running. Its Spark jobs are canceled, its files are removed, and it ends within seconds.'} Nothing is published.</p>
        {run.trigger.type === 'auto-materialize' ? <p>It is not asked for again with the same versions. New data, a manual run or a reset of the workflow ends that.</p> : null}
        {run.batchId !== null && run.partitionKeys.length > 1 ? <p>It is computed in one batch with other partitions.</p> : null}
      </>
    ),
    verb: 'Cancel the run',
    dangerous: true,
    fields: [{ name: 'reason', label: 'Reason', type: 'text', hint: 'Stored with the run, and in its event.' }],
    command: (values) => `freshline cancel ${short(run.id)}${values.reason ? ` --reason ${quote(values.reason)}` : ''}`,
    act: async (values) => {
      await post(`runs/${segment(run.id)}/cancel`, values.reason ? { reason: values.reason } : {})
      changed()
      return <>The run <RunLink id={run.id} /> is being canceled.</>
    },
  })
}

/** Return the parameters that somebody gave to a run; the others come from the definition as it is now. */
export function givenParameters(run: Run): JsonObject {
  const given = run.trigger.parameters ?? []
  return Object.fromEntries(given.flatMap((name) => (Object.hasOwn(run.parameters, name) ? [[name, run.parameters[name]]] : [])))
}

function askAgain(run: Run): void {
  const key = onceKey()
  const parameters = givenParameters(run)
  const set = Object.entries(parameters)
  ask({
    title: `Run ${visible(named(run.workflowSlug, run.partitionKey))} again?`,
    text: () => (
      <>
        <p>A new run is queued. It reads the current versions of the inputs, not those that this run read, and uses the current definition.</p>
        <p>It ignores holds, pauses and cooldowns, and goes before automatic runs.</p>
        {set.length > 0 ? <p>It gets the same parameters: {set.map(([name]) => visible(name)).join(', ')}.</p> : null}
      </>
    ),
    verb: 'Run it',
    command: () => `freshline run ${quote(run.workflowSlug)}${run.partitionKey ? ` --partition ${quote(run.partitionKey)}` : ''}` +
      set.map(([name, value]) => ` --param ${quote(`${name}=${JSON.stringify(value)}`)}`).join(''),
    act: async () => {
      const made = await post<RunDetail>(`workflows/${segment(run.workflowSlug)}/run`, { partitionKey: run.partitionKey, parameters, key })
      go(['runs', made.id])
      return <>Queued run <RunLink id={made.id} />.</>
    },
  })
}
