import type { Worker } from '../../types'

export type ProcessState = 'live' | 'silent' | 'stopped'

/** Return whether a process lives. One that is silent was killed or cut off: it did not say that it stopped. */
export const processState = (one: Worker): ProcessState => (one.stoppedAt !== null ? 'stopped' : one.live ? 'live' : 'silent')

/** Return what a process says is wrong with it. */
export function troubles(one: Worker): string[] {
  const { engine, bus, warehouse, renamedTo } = one.info
  const found: string[] = []
  if (processState(one) === 'stopped') return found
  if (typeof engine === 'string' && engine !== 'ok') found.push(`Spark: ${engine}`)
  if (typeof bus === 'string' && bus !== 'ok') found.push(`Redis: ${bus}`)
  if (typeof warehouse === 'string') found.push(`Warehouse: ${warehouse}`)
  if (typeof renamedTo === 'string') found.push(`its project is called ${renamedTo} now; restart it`)
  return found
}
