import type { Cause } from '../../types'

/** Causes that end by themselves: something runs, is queued, or waits for its time. */
const MOVING: ReadonlySet<string> = new Set(['running', 'queued', 'due', 'held', 'stale'])

export const moving = (cause: Cause): boolean => MOVING.has(cause.kind)

/** Return what makes two answers speak of the same cause. */
export function identity(cause: Cause): string {
  const root = cause.backfillId ?? cause.workflowSlug ?? cause.assetId ?? cause.reason ?? ''
  return `${moving(cause) ? 'moving' : 'root'} ${cause.workflowSlug === null ? cause.kind : ''} ${root} ${cause.partitionKey}`
}

/**
 * Return the causes in the order in which they are shown: those that were shown stay where they were, new ones come
 * after them. Nothing moves while somebody reads; the first answer has the server's order, the worst first.
 */
export function inOrder(causes: readonly Cause[], shown: readonly string[]): readonly Cause[] {
  const places = new Map(shown.map((key, place) => [key, place]))
  const place = (cause: Cause): number => places.get(identity(cause)) ?? Number.POSITIVE_INFINITY
  return causes
    .map((cause, rank) => ({ cause, rank, place: place(cause) }))
    .sort((a, b) => Number(moving(a.cause)) - Number(moving(b.cause)) || (a.place === b.place ? a.rank - b.rank : a.place - b.place))
    .map((one) => one.cause)
}

/** The state whose mark a cause has. */
const MARKS: Readonly<Record<string, string>> = {
  'never-reported': 'missing',
  'nothing-found': 'missing',
  'watch-failing': 'failing',
  failing: 'failing',
  paused: 'paused',
  canceled: 'canceled',
  'not-automatic': 'stale',
  proposal: 'proposed',
  overdue: 'overdue',
  running: 'running',
  queued: 'queued',
  due: 'waiting',
  held: 'waiting',
  stale: 'stale',
}

export const markOf = (cause: Cause): string => MARKS[cause.kind] ?? 'stale'

/** Return a sentence in the parts before, in and after a name, so that the name can be a link. Null: it is not in it. */
export function around(sentence: string, name: string | null): readonly [string, string, string] | null {
  if (name === null || name === '') return null
  for (let at = sentence.indexOf(name); at >= 0; at = sentence.indexOf(name, at + 1)) {
    const end = at + name.length
    // A name inside a longer one is another name.
    if (!/[\w.-]/.test(sentence[at - 1] ?? ' ') && !/^(?:[\w-]|\.\w)/.test(sentence.slice(end))) {
      return [sentence.slice(0, at), name, sentence.slice(end)]
    }
  }
  return null
}

/** Return a sentence with a capital letter, unless it begins with a name. */
export function capital(sentence: string): string {
  const end = /[.!?]$/.test(sentence) ? '' : '.'
  return `${sentence.slice(0, 1).toUpperCase()}${sentence.slice(1)}${end}`
}
