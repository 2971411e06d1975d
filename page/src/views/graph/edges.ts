import { BOX, CELL } from './arrange'
import type { Links } from './model'
import type { Scene } from './scene'

/** More edges than this are not drawn: nobody can follow them, and each costs time in every frame. */
const MOST_EDGES = 500
const FULL_EDGES = 150
const MOST_CELLS = 1500
const MOST_FOCUS_EDGES = 400

/** The edges of a frame, as pairs of slots. They are kept between frames, so that drawing allocates nothing. */
export class Edges {
  readonly #from = new Uint32Array(MOST_EDGES)
  readonly #to = new Uint32Array(MOST_EDGES)
  readonly #triggers = new Uint8Array(MOST_EDGES)
  #seen = new Uint32Array()
  #frame = 0

  /** Draw the edges of the visible cells, if they are few; the more there are the fainter they get. */
  paint(scene: Scene, slots: Uint32Array, count: number): void {
    if (count > MOST_CELLS) return
    const found = this.#collect(scene, slots, count)
    if (found > MOST_EDGES) return
    const { context, palette } = scene
    const crowd = Math.max(0, (found - FULL_EDGES) / (MOST_EDGES - FULL_EDGES))
    context.globalAlpha = 1 - 0.85 * crowd
    context.strokeStyle = palette.strong
    context.lineWidth = 1
    this.#stroke(scene, found, 1)
    context.setLineDash(DOTTED)
    this.#stroke(scene, found, 0)
    context.setLineDash(SOLID)
    context.globalAlpha = 1
  }

  #stroke(scene: Scene, found: number, triggers: number): void {
    const { context } = scene
    let any = false
    for (let edge = 0; edge < found; edge += 1) {
      if (this.#triggers[edge] !== triggers) continue
      if (!any) context.beginPath()
      any = true
      curve(scene, this.#from[edge]!, this.#to[edge]!)
    }
    if (any) context.stroke()
  }

  #collect(scene: Scene, slots: Uint32Array, count: number): number {
    const { model, plan } = scene
    if (this.#seen.length < plan.nodes.length) this.#seen = new Uint32Array(plan.nodes.length)
    this.#frame += 1
    for (let at = 0; at < count; at += 1) this.#seen[slots[at]!] = this.#frame
    let found = 0
    for (let at = 0; at < count && found <= MOST_EDGES; at += 1) {
      const slot = slots[at]!
      const node = plan.nodes[slot]!
      for (let edge = model.outputs.start[node]!; edge < model.outputs.start[node + 1]!; edge += 1) {
        const end = plan.slots[model.outputs.ends[edge]!]!
        if (end < 0) continue
        if (found >= MOST_EDGES) return MOST_EDGES + 1
        this.#keep(found, slot, end, model.outputs.triggers[edge]!)
        found += 1
      }
      for (let edge = model.inputs.start[node]!; edge < model.inputs.start[node + 1]!; edge += 1) {
        const end = plan.slots[model.inputs.ends[edge]!]!
        // An edge between two visible cells is that of its input.
        if (end < 0 || this.#seen[end] === this.#frame) continue
        if (found >= MOST_EDGES) return MOST_EDGES + 1
        this.#keep(found, end, slot, model.inputs.triggers[edge]!)
        found += 1
      }
    }
    return found
  }

  #keep(at: number, from: number, to: number, triggers: number): void {
    this.#from[at] = from
    this.#to[at] = to
    this.#triggers[at] = triggers
  }
}

const DOTTED = [2, 4]
const SOLID: number[] = []

/** Draw the edges of one node above everything: they can be followed at any zoom. */
export function paintEdgesOf(scene: Scene, node: number, colour: string, thick: number): void {
  const slot = scene.plan.slots[node] ?? -1
  if (slot < 0) return
  const { context, model } = scene
  context.strokeStyle = colour
  context.lineWidth = thick
  context.beginPath()
  ends(scene, model.inputs, node, (end) => curve(scene, end, slot))
  ends(scene, model.outputs, node, (end) => curve(scene, slot, end))
  context.stroke()
}

function ends(scene: Scene, links: Links, node: number, draw: (slot: number) => void): void {
  const last = Math.min(links.start[node + 1]!, links.start[node]! + MOST_FOCUS_EDGES)
  for (let edge = links.start[node]!; edge < last; edge += 1) {
    const end = scene.plan.slots[links.ends[edge]!]!
    if (end >= 0) draw(end)
  }
}

/** Add the curve from the right of one cell to the left of another. */
function curve(scene: Scene, from: number, to: number): void {
  const { camera, plan } = scene
  const middle = CELL.height / 2
  line(
    scene.context, camera.zoom,
    camera.screenX(plan.x[from]! + CELL.width), camera.screenY(plan.y[from]! + middle),
    camera.screenX(plan.x[to]!), camera.screenY(plan.y[to]! + middle),
  )
}

function line(context: CanvasRenderingContext2D, zoom: number, x1: number, y1: number, x2: number, y2: number): void {
  const bend = x2 >= x1 ? Math.max(12 * zoom, (x2 - x1) * 0.45) : 60 * zoom
  context.moveTo(x1, y1)
  context.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2)
}

const MOST_BUNDLES = 1500

/** Draw the edges between boxes; those of one box with a stronger colour. */
export function paintBundles(scene: Scene, marked: number): void {
  const { camera, context, palette, plan } = scene
  const pairs = plan.bundles
  const few = pairs.length / 2 <= MOST_BUNDLES
  context.lineWidth = 1
  for (const strong of [false, true]) {
    if (!strong && !few) continue
    context.strokeStyle = strong ? palette.accent : palette.strong
    context.beginPath()
    for (let at = 0; at < pairs.length; at += 2) {
      const touches = pairs[at] === marked || pairs[at + 1] === marked
      if (touches !== strong) continue
      const from = plan.blocks[pairs[at]!]!
      const to = plan.blocks[pairs[at + 1]!]!
      line(
        context, camera.zoom,
        camera.screenX(from.x + BOX.width), camera.screenY(from.y + BOX.height / 2),
        camera.screenX(to.x), camera.screenY(to.y + BOX.height / 2),
      )
    }
    context.stroke()
  }
}
