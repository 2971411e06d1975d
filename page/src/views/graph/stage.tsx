import { useSignal } from '@preact/signals'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import { counted, visible } from '../../format'
import { go, setQuery } from '../../router'
import { dark } from '../../theme'
import { sameView, viewQuery, type Address } from './address'
import type { Arrangement, Block } from './arrange'
import type { View } from './camera'
import { HoverCard, type Hovered } from './hover'
import { handleKey } from './keys'
import { neighbours, stateOf } from './model'
import { Renderer } from './renderer'
import type { Graph } from './use'

/** The canvas with its keyboard, the card under the pointer, and what a screen reader hears. */
export function Stage(props: {
  graph: Graph
  plan: Arrangement
  focus: number
  address: Address
  renderer: { current: Renderer | null }
  select: (node: number) => void
  openGroup: (block: Block) => void
  clear: () => void
}) {
  const { graph, plan, focus, address, renderer } = props
  const canvas = useRef<HTMLCanvasElement>(null)
  const hovered = useSignal<Hovered | null>(null)
  const current = useRef(props)
  current.current = props
  /** The view that the address had when it was last read or written here. */
  const known = useRef<View | null>(null)

  useEffect(() => {
    if (canvas.current === null) return
    const made = new Renderer(canvas.current, {
      focused: (node) => current.current.select(node),
      opened: (node) => setQuery({ show: 'near', focus: current.current.graph.model.ids[node]!, ...viewQuery(null) }, { push: true }),
      boxed: (block) => current.current.openGroup(block),
      hovered: (node, x, y) => {
        const { model, live } = current.current.graph
        hovered.value = node < 0 ? null : { id: model.ids[node]!, state: stateOf(live.values[node]!), x, y }
      },
      moved: (view) => {
        known.current = view
        setQuery(viewQuery(view))
      },
    })
    renderer.current = made
    return () => {
      renderer.current = null
      made.destroy()
    }
  }, [])
  useEffect(() => renderer.current?.load(graph.model, graph.live.values), [graph])
  useEffect(() => {
    // A view that the address got from elsewhere is shown; otherwise the focus stays under the pointer.
    const given = sameView(address.view, known.current) ? null : address.view
    known.current = address.view
    renderer.current?.arrange(plan, focus, given)
  }, [plan])
  useEffect(() => {
    if (sameView(address.view, known.current)) return
    known.current = address.view
    renderer.current?.look(address.view)
  }, [address.view?.zoom, address.view?.x, address.view?.y])
  useEffect(() => renderer.current?.focus(focus), [focus])
  useEffect(() => renderer.current?.recolour(), [dark.value])

  const said = useMemo(() => (focus < 0 ? '' : sentence(graph, focus)), [graph, focus])
  const box = canvas.current
  return (
    <div
      class="graph-stage" role="application" tabIndex={0} aria-describedby="graph-keys"
      aria-label="Graph of assets"
      onKeyDown={(event) => {
        const made = renderer.current
        if (made === null || event.ctrlKey || event.metaKey || event.altKey) return
        const handled = handleKey(event.key, { ...props, renderer: made, model: graph.model, open: (id) => go(['assets', id]) })
        if (handled) {
          event.preventDefault()
          event.stopPropagation()
        }
      }}
    >
      <canvas ref={canvas} role="img" aria-label={`${counted(plan.nodes.length, 'asset')}. ${focus < 0 ? '' : sentence(graph, focus)}`} />
      <p id="graph-keys" class="hidden-text">
        Arrow keys follow the edges and the layers, Enter opens the asset, plus and minus zoom, 0 shows everything,
        Escape clears the selection.
      </p>
      <p class="hidden-text" aria-live="polite">{said}</p>
      {hovered.value === null || box === null ? null
        : <HoverCard hovered={hovered.value} width={box.clientWidth} height={box.clientHeight} />}
      <div class="graph-zoom" role="group" aria-label="Zoom">
        <button type="button" aria-label="Zoom in" onClick={() => renderer.current?.zoom(1.4)}>+</button>
        <button type="button" aria-label="Zoom out" onClick={() => renderer.current?.zoom(1 / 1.4)}>−</button>
        <button type="button" onClick={() => renderer.current?.fit()}>Fit</button>
      </div>
    </div>
  )
}

function sentence({ model, live }: Graph, node: number): string {
  const inputs = neighbours(model.inputs, node).length
  const outputs = neighbours(model.outputs, node).length
  return `${visible(model.ids[node]!)}: ${stateOf(live.values[node]!)}, made from ${inputs}, read by ${outputs}.`
}
