import { logText, visible } from '../../format'
import { Copy } from '../../parts/cli'
import type { Check, Json, Run, RunError } from '../../types'

/** What went wrong, with the lines of the user's own code. */
export function RunProblem({ run }: { run: Run }) {
  const { error } = run
  if (error === null) return null
  return (
    <section class="panel run-error" aria-labelledby="run-error">
      <header class="panel-head">
        <h2 id="run-error">{error.step ? <>Step {visible(error.step)} failed</> : 'It failed'}</h2>
        <span class="badge">{visible(error.code)}</span>
        <div class="panel-actions"><Copy text={whole(error)} label="Copy the error" /></div>
      </header>
      <p class="run-message">{lines(error.message)}</p>
      {error.checks && error.checks.length > 0 ? <FailedChecks checks={error.checks} /> : null}
      {error.traceback ? (
        <details open={error.traceback.length < 4000}>
          <summary>Where in your code</summary>
          <pre class="box">{lines(error.traceback.trimEnd())}</pre>
        </details>
      ) : null}
    </section>
  )
}

export function FailedChecks({ checks }: { checks: readonly Check[] }) {
  const failed = checks.filter((one) => !one.passed)
  return (
    <ul class="plain stack">
      {failed.map((one) => (
        <li key={one.check}>
          <span class={one.severity === 'warn' ? 'warn' : 'bad'}>{visible(one.severity)}</span> {visible(one.check)}:{' '}
          {visible(one.message ?? `observed ${short(one.observed)}`)}
        </li>
      ))}
    </ul>
  )
}

function short(value: Json): string {
  const text = JSON.stringify(value)
  return text.length <= 100 ? text : `${text.slice(0, 99)}…`
}

const lines = (text: string): string => text.split('\n').map(logText).join('\n')
const whole = (error: RunError): string => lines([error.message, error.traceback ?? ''].join('\n').trim())
