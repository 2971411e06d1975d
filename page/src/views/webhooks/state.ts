import type { Webhook } from '../../types'

/** After so many failures in a row the receiver counts as unavailable: one event at a time is tried. */
const UNAVAILABLE = 3

/** Return the state of a webhook and what it is called. */
export function webhookState(one: Webhook): { state: string; label: string } {
  if (one.paused) return { state: 'paused', label: 'paused' }
  if (one.failures >= UNAVAILABLE) return { state: 'failing', label: 'the receiver does not answer' }
  if (one.failures > 0) return { state: 'hold', label: 'retrying' }
  if (one.dead > 0) return { state: 'dead', label: 'dead letters' }
  return { state: 'ok', label: 'ok' }
}
