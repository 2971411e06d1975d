import { counted, visible, words } from '../../format'
import type { Asset, Watch } from '../../types'

/** The part of the graph's picture that says which assets are sources: id, layer, order, kind, workflow, group. */
export interface Picture {
  readonly nodes: readonly (readonly [string, number, number, 'asset' | 'source', ...unknown[]])[]
}

export const sourceIds = (picture: Picture): string[] =>
  picture.nodes.filter((one) => one[3] === 'source').map((one) => one[0]).sort()

export type WatchState = 'looking' | 'failing' | 'new' | 'ok'

/** Return the state of a watcher. `new`: it has not looked yet, so nothing is known of its source. */
export function watchState(watch: Watch): WatchState {
  if (watch.failures > 0 || watch.breakerOpenedAt !== null) return 'failing'
  if (watch.looking) return 'looking'
  return watch.lookedAt === null ? 'new' : 'ok'
}

const MARKS: Readonly<Record<WatchState, string>> = { looking: 'running', failing: 'failing', new: 'waiting', ok: 'ok' }

/** Return a word of `STATES` for the state of a watcher. */
export const watchMark = (watch: Watch): string => MARKS[watchState(watch)]

/** Return the state of a watcher as a sentence. */
export function watchText(watch: Watch): string {
  switch (watchState(watch)) {
    case 'failing':
      return watch.failures > 1 ? `the last ${counted(watch.failures, 'look')} failed` : 'the last look failed'
    case 'looking':
      return 'a process looks now'
    case 'new':
      return 'it has not looked yet'
    default:
      return 'the last look succeeded'
  }
}

const KINDS: Readonly<Record<string, string>> = {
  files: 'files', delta: 'a Delta table', iceberg: 'an Iceberg table', sql: 'a query', http: 'a URL',
}

/** Return what a watcher looks at; of a kind that a newer server has, its name. */
export const watchedText = (kind: string): string => (Object.hasOwn(KINDS, kind) ? KINDS[kind]! : visible(words(kind)))

/** Return when a watcher last succeeded, if it never did. */
export const neverText = (watch: Watch): string => (watchState(watch) === 'failing' ? 'none has succeeded yet' : 'none yet')

/** Return the sources that match the filters. Those with a failing watcher come first: they need somebody. */
export function matchingSources(
  ids: readonly string[], watches: ReadonlyMap<string, Watch>, search: string, watched: string,
): string[] {
  const text = search.toLowerCase()
  const failing = (id: string): boolean => {
    const watch = watches.get(id)
    return watch !== undefined && watchState(watch) === 'failing'
  }
  const wanted = (id: string): boolean => {
    if (!id.toLowerCase().includes(text)) return false
    switch (watched) {
      case 'watched':
        return watches.has(id)
      case 'failing':
        return failing(id)
      case 'none':
        return !watches.has(id)
      default:
        return true
    }
  }
  const found = ids.filter(wanted)
  return [...found.filter(failing), ...found.filter((one) => !failing(one))]
}

/** Return the mode of a source: `snapshot`, where a report replaces the data, or `append`. */
export function modeOf(asset: Asset): string {
  const mode = asset.declaration.mode
  return typeof mode === 'string' ? mode : 'snapshot'
}
