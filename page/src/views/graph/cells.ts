import { ASSET_STATES } from '../../states'
import { CELL } from './arrange'
import { NAMES_ZOOM } from './camera'
import { fontSize, useFont, type Scene } from './scene'

const STRIP = 4
const MARK_ZOOM = 0.7

/** Draw the cells of some slots: colours when far, names when near. One colour after the other, as a canvas likes it. */
export function paintCells(scene: Scene, slots: Uint32Array, count: number): void {
  const { camera, context, palette } = scene
  const near = camera.zoom >= NAMES_ZOOM
  const width = Math.max(1, Math.round(CELL.width * camera.zoom))
  const height = Math.max(1, Math.round(CELL.height * camera.zoom))
  for (let state = 0; state < ASSET_STATES.length; state += 1) {
    context.fillStyle = near ? palette.soft[state]! : palette.cells[state]!
    rectangles(scene, slots, count, state, width, height)
  }
  if (!near) return
  const strip = Math.max(2, Math.round(STRIP * camera.zoom))
  for (let state = 0; state < ASSET_STATES.length; state += 1) {
    context.fillStyle = palette.solid[state]!
    rectangles(scene, slots, count, state, strip, height)
  }
  if (camera.zoom >= MARK_ZOOM) marks(scene, slots, count)
  names(scene, slots, count, width, height, strip)
}

function rectangles(
  scene: Scene, slots: Uint32Array, count: number, state: number, width: number, height: number,
): void {
  const { camera, context, plan, states } = scene
  for (let at = 0; at < count; at += 1) {
    const slot = slots[at]!
    if (states[plan.nodes[slot]!] !== state) continue
    context.fillRect(
      Math.round(camera.screenX(plan.x[slot]!)), Math.round(camera.screenY(plan.y[slot]!)), width, height)
  }
}

/** The marks say the state without a colour. */
function marks(scene: Scene, slots: Uint32Array, count: number): void {
  const { camera, context, palette, plan, states } = scene
  const scale = camera.zoom * 0.9
  context.lineWidth = 1.7
  context.lineCap = 'round'
  context.lineJoin = 'round'
  context.save()
  for (let at = 0; at < count; at += 1) {
    const slot = slots[at]!
    const state = states[plan.nodes[slot]!]!
    const ratio = devicePixelRatio * scale
    const x = (camera.screenX(plan.x[slot]!) + 8 * camera.zoom) * devicePixelRatio
    const y = (camera.screenY(plan.y[slot]!) + (CELL.height / 2) * camera.zoom) * devicePixelRatio - 8 * ratio
    context.setTransform(ratio, 0, 0, ratio, x, y)
    context.strokeStyle = palette.solid[state]!
    context.stroke(palette.marks[state]!)
  }
  context.restore()
}

function names(
  scene: Scene, slots: Uint32Array, count: number, width: number, height: number, strip: number,
): void {
  const { camera, context, labels, palette, plan } = scene
  const character = useFont(context, fontSize(camera.zoom), palette.mono)
  const indent = camera.zoom >= MARK_ZOOM ? 26 * camera.zoom : strip + 4
  const most = Math.floor((width - indent - 4) / character)
  if (most < 3) return
  context.fillStyle = palette.text
  context.textBaseline = 'middle'
  context.textAlign = 'left'
  for (let at = 0; at < count; at += 1) {
    const slot = slots[at]!
    const x = Math.round(camera.screenX(plan.x[slot]!)) + indent
    const y = Math.round(camera.screenY(plan.y[slot]!)) + height / 2 + 0.5
    context.fillText(labels.text(plan.nodes[slot]!, most), x, y)
  }
}

/** Draw a frame around the cell of a node. */
export function outline(scene: Scene, node: number, colour: string, thick: number): void {
  const { camera, context, plan } = scene
  const slot = plan.slots[node] ?? -1
  if (slot < 0) return
  const width = Math.max(3, Math.round(CELL.width * camera.zoom))
  const height = Math.max(3, Math.round(CELL.height * camera.zoom))
  const x = Math.round(camera.screenX(plan.x[slot]!))
  const y = Math.round(camera.screenY(plan.y[slot]!))
  if (x > camera.width || y > camera.height || x + width < 0 || y + height < 0) return
  context.strokeStyle = colour
  context.lineWidth = thick
  const off = thick / 2
  context.strokeRect(x - off, y - off, width + thick, height + thick)
}
