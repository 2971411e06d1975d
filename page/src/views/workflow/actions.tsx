import { post, segment } from '../../api'
import { quote, short, visible } from '../../format'
import { ask } from '../../parts/confirm'
import { onceKey } from '../../parts/requests'
import { href } from '../../router'
import type { PolicyStatus, RunDetail, Workflow } from '../../types'
import { parameterLines, parameterOptions, parseParameters } from './steps'

/** Return whether anything is left to reset: a failure, an open breaker, or a canceled run. */
export const canReset = (policy: PolicyStatus): boolean =>
  policy.cooldown.failures > 0 || policy.breaker.state === 'open' || policy.hold?.reason === 'canceled'

/** Ask for a run with parameters. Only those that differ from the declared ones are sent. */
export function askRunWorkflow(workflow: Workflow, partitioned: string | null, done: () => void): void {
  const { slug } = workflow
  const once = onceKey()
  const declared = parameterLines(workflow.definition)
  const lines = (text: string): string => {
    const usual = new Set(declared.split('\n'))
    return text.split('\n').filter((one) => !usual.has(one.trim())).join('\n')
  }
  ask({
    title: `Run ${visible(slug)}`,
    verb: 'Run',
    text: (values) => (
      <>
        <p>
          A run is queued on the current versions of the inputs. It ignores holds, pauses and cooldowns, and goes before
          automatic runs. Its success counts like any other.
        </p>
        {values.full ? <p>A full refresh rewrites tables that are otherwise appended to or merged.</p> : null}
        {values.confirm ? <p class="bad">Rows that cannot be computed again are dropped.</p> : null}
      </>
    ),
    fields: [
      ...(partitioned === null ? [] : [{ name: 'partition', label: 'Partition', type: 'text', value: partitioned, required: true } as const]),
      { name: 'parameters', label: 'Parameters', type: 'textarea', value: declared, hint: 'NAME=VALUE, one per line; a value is JSON, else text.' },
      { name: 'full', label: 'Full refresh', type: 'checkbox' },
      { name: 'confirm', label: 'Drop rows that cannot be computed again', type: 'checkbox', hint: 'Only with a full refresh.' },
    ],
    command: (values) => `freshline run ${quote(slug)}${values.partition ? ` --partition ${quote(values.partition)}` : ''}` +
      `${parameterOptions(lines(values.parameters ?? ''))}${values.full ? ' --full-refresh' : ''}${values.confirm ? ' --yes' : ''}`,
    act: async (values) => {
      const parameters = parseParameters(lines(values.parameters ?? ''))
      const run = await post<RunDetail>(`workflows/${segment(slug)}/run`, {
        key: once, fullRefresh: values.full === 'yes', confirm: values.confirm === 'yes',
        ...(Object.keys(parameters).length > 0 ? { parameters } : {}),
        ...(values.partition ? { partitionKey: values.partition } : {}),
      })
      done()
      return <>A run was queued: <a href={href(['runs', run.id])}>run {short(run.id)}</a>.</>
    },
  })
}
