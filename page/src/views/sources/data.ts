import type { Asset, Watch } from '../../types'

/** The part of the graph's picture that says which assets are sources: id, layer, order, kind, workflow, group. */
export interface Picture {
  readonly nodes: readonly (readonly [string, number, number, 'asset' | 'source', ...unknown[]])[]
}

export const sourceIds = (picture: Picture): string[] =>
  picture.nodes.filter((one) => one[3] === 'source').map((one) => one[0]).sort()

export type WatchState = 'looking' | 'failing' | 'ok'

export function watchState(watch: Watch): WatchState {
  if (watch.failures > 0 || watch.breakerOpenedAt !== null) return 'failing'
  return watch.looking ? 'looking' : 'ok'
}

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
