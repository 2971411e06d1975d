import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { get } from '../../api'
import { ofType, useLoad } from '../../load'
import { stream } from '../../stream'
import { LiveStates } from './live'
import { GraphModel, type AssetStates, type GraphLayout } from './model'

/** The graph with its states; they belong together, because both number the assets. */
export interface Graph {
  readonly model: GraphModel
  readonly live: LiveStates
}

export interface Watched {
  readonly graph: Graph | null
  readonly error: unknown
  /** Counts up when states changed, a few times a second at most. */
  readonly version: number
  readonly reload: () => void
}

const PACE_MS = 250

/** Read the graph and follow its states. `repaint` is called at once when states change. */
export function useGraph(repaint: () => void): Watched {
  const layout = useLoad('graph layout', (stop) => get<GraphLayout>('assets/graph/layout', {}, stop), {
    events: ofType('workflow.definition.updated'),
  })
  const graph = useSignal<Graph | null>(null)
  const version = useSignal(0)
  const trouble = useSignal<unknown>(null)
  const model = useRef<GraphModel | null>(null)
  const painter = useRef(repaint)
  painter.current = repaint

  const document = layout.data
  if (document !== null && (model.current?.epoch !== document.epoch || model.current.size !== document.nodes.length)) {
    model.current = new GraphModel(document)
  }
  const current = model.current

  useEffect(() => {
    if (current === null) return
    let timer: ReturnType<typeof setTimeout> | undefined
    const live = new LiveStates(current, {
      read: (assets, stop) => get<AssetStates>('assets/states', assets === null ? {} : { asset: assets }, stop),
      changed() {
        trouble.value = null
        // The graph before stays until the states of the new one are known.
        if (graph.peek()?.live !== live) graph.value = { model: current, live }
        painter.current()
        timer ??= setTimeout(() => {
          timer = undefined
          version.value += 1
        }, PACE_MS)
      },
      outdated: layout.reload,
      failed: (error) => {
        if (graph.peek() === null) trouble.value = error
      },
    })
    const source = stream()
    const unsubscribe = source.subscribe((events) => live.take(events))
    let epoch = source.epoch.peek()
    const unreset = source.epoch.subscribe((now) => {
      if (now !== epoch) live.reload()
      epoch = now
    })
    return () => {
      live.stop()
      unsubscribe()
      unreset()
      clearTimeout(timer)
    }
  }, [current])

  return {
    graph: graph.value, error: layout.error ?? trouble.value, version: version.value, reload: layout.reload,
  }
}
