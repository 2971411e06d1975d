import type { Signal } from '@preact/signals'
import { visible } from '../format'
import { Copy } from './cli'

/** A secret that the server tells once. It stays until the reader says that it is kept. */
export interface Secret {
  readonly what: string
  readonly text: string
}

export function SecretOnce({ from }: { from: Signal<Secret | null> }) {
  const secret = from.value
  if (secret === null) return null
  return (
    <section class="panel" role="status" aria-label="A new secret">
      <header class="panel-head"><h2>{visible(secret.what)}</h2></header>
      <div class="secret">
        <code>{secret.text}</code>
        <Copy text={secret.text} label="Copy the secret" />
      </div>
      <p>It is shown only now. Copy it before you leave this page: nobody can read it later.</p>
      <p><button type="button" onClick={() => {
        from.value = null
      }}>I have it</button></p>
    </section>
  )
}
