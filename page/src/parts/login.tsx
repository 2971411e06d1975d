import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { explain, loginNeeded } from '../api'
import { login, session } from '../session'
import { Ticks } from './basics'
import { Copy } from './cli'

const COMMAND = 'freshline token create me --scope operate'

/** The form that exchanges a token for a cookie. */
export function Login() {
  const token = useSignal('')
  const trouble = useSignal<string | null>(null)
  const busy = useSignal(false)
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => field.current?.focus(), [])
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault()
    if (busy.value || token.value.trim() === '') return
    busy.value = true
    trouble.value = null
    try {
      await login(token.value.trim())
    } catch (error) {
      trouble.value = explain(error)
    } finally {
      busy.value = false
    }
  }
  return (
    <form class="login panel" onSubmit={(event) => void submit(event)} aria-labelledby="login-title">
      <h1 id="login-title">Log in</h1>
      <p class="quiet">This API needs a token. It becomes a cookie that only the server reads, and is not kept in the page.</p>
      <div class="field">
        <label for="token">Token</label>
        <input
          ref={field} id="token" type="password" name="token" autocomplete="current-password" required spellcheck={false}
          aria-describedby={trouble.value === null ? undefined : 'login-trouble'} aria-invalid={trouble.value !== null}
          value={token.value}
          onInput={(event) => {
            token.value = event.currentTarget.value
          }}
        />
      </div>
      {trouble.value === null ? null : <p id="login-trouble" class="banner banner-bad" role="alert"><span><Ticks text={trouble.value} /></span></p>}
      <div class="row">
        <button type="submit" class="primary" disabled={busy.value}>{busy.value ? 'Working…' : 'Log in'}</button>
        {session.value === null ? null : (
          // Somebody who wants more rights than they have may change their mind.
          <button type="button" onClick={() => { loginNeeded.value = false }}>Not now</button>
        )}
      </div>
      <details>
        <summary>How do I get one?</summary>
        <div class="stack">
          <p>Somebody with access to the project directory creates it. It is printed once:</p>
          <p class="cli"><code>{COMMAND}</code> <Copy text={COMMAND} label="Copy the command" /></p>
          <p class="quiet">
            <code>read</code> shows everything; <code>operate</code> also reports, runs, cancels and pauses; <code>admin</code> also
            shows the audit and changes webhooks. A token ends after 90 days unless <code>--expires</code> says otherwise.
          </p>
        </div>
      </details>
    </form>
  )
}
