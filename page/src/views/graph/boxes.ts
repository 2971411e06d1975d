import { count as formatted } from '../../format'
import type { Block } from './arrange'
import { BOXES_ZOOM } from './camera'
import { needsAttention } from './model'
import { shortened, useFont, type Scene } from './scene'

/** Whether the groups are drawn as boxes with counts instead of their assets. */
export function folded(scene: { plan: { grouping: string }; camera: { zoom: number } }): boolean {
  return scene.plan.grouping === 'boxes' || (scene.plan.grouping === 'prefix' && scene.camera.zoom < BOXES_ZOOM)
}

/** Return the name of a group; assets without a common prefix are in a group without a name. */
export const groupName = (name: string): string => (name === '' ? '(no prefix)' : `${name}.*`)

/** Draw the groups as boxes: the name, how many assets, and their states as a bar. */
export function paintBoxes(scene: Scene, marked: number): void {
  const { camera, context, palette, plan, tallies } = scene
  const counts = tallies.of(plan, scene.states)
  for (let number = 0; number < plan.blocks.length; number += 1) {
    const block = plan.blocks[number]!
    const frame = frameOf(scene, block)
    if (frame === null) continue
    const { x, y, width, height } = frame
    const worst = worstOf(counts, number * tallies.width, tallies.width)
    context.fillStyle = worst < 0 ? palette.raised : palette.soft[worst]!
    context.fillRect(x, y, width, height)
    const room = height >= 20 && width >= 56
    const bar = room ? Math.max(4, Math.round(Math.min(14, height * 0.2))) : height - 2
    shares(scene, counts, number * tallies.width, block.count, x + 1, y + height - bar - 1, width - 2, bar)
    context.strokeStyle = number === marked ? palette.accent : palette.strong
    context.lineWidth = number === marked ? 2 : 1
    context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1)
    if (room) caption(scene, block, unrest(counts, number * tallies.width, tallies.width), x, y, width, height - bar, camera.zoom)
  }
}

function frameOf(scene: Scene, block: Block): { x: number; y: number; width: number; height: number } | null {
  const { camera } = scene
  const x = Math.round(camera.screenX(block.x))
  const y = Math.round(camera.screenY(block.y))
  const width = Math.max(3, Math.round(block.width * camera.zoom))
  const height = Math.max(3, Math.round(block.height * camera.zoom))
  return x > camera.width || y > camera.height || x + width < 0 || y + height < 0 ? null : { x, y, width, height }
}

/** The states side by side, those that need attention first. A state with any asset has at least two pixels. */
function shares(
  scene: Scene, counts: Uint32Array, first: number, all: number, x: number, y: number, width: number, height: number,
): void {
  const { context, palette, tallies } = scene
  let left = x
  for (let state = 0; state < tallies.width; state += 1) {
    const some = counts[first + state]!
    if (some === 0) continue
    const wide = Math.max(2, Math.round((width * some) / all))
    context.fillStyle = palette.cells[state]!
    context.fillRect(left, y, Math.min(wide, x + width - left), height)
    left = Math.min(x + width - 2, left + wide)
  }
}

/** Return the state that needs attention most; -1: none does. States are numbered in that order. */
function worstOf(counts: Uint32Array, first: number, states: number): number {
  for (let state = 0; state < states; state += 1) if (counts[first + state]! > 0 && needsAttention(state)) return state
  return -1
}

function unrest(counts: Uint32Array, first: number, states: number): number {
  let some = 0
  for (let state = 0; state < states; state += 1) if (needsAttention(state)) some += counts[first + state]!
  return some
}

function caption(
  scene: Scene, block: Block, some: number, x: number, y: number, width: number, height: number, zoom: number,
): void {
  const { context, model, palette } = scene
  const size = scene.plan.grouping === 'boxes' ? Math.min(14, Math.max(9, Math.round(12 * zoom))) : 11
  const character = useFont(context, size, palette.mono)
  const most = Math.floor((width - 10) / character)
  context.textBaseline = 'middle'
  context.textAlign = 'left'
  const two = height >= 2 * size + 8
  context.fillStyle = palette.text
  const name = groupName(model.groups[block.group] ?? '')
  context.fillText(shortened(name, most), x + 5, y + (two ? height / 2 - size * 0.65 : height / 2))
  if (!two) return
  context.fillStyle = palette.quiet
  const text = some > 0
    ? `${formatted(some)} of ${formatted(block.count)} not fresh`
    : `${formatted(block.count)} ${block.count === 1 ? 'asset' : 'assets'}`
  context.fillText(shortened(text, most), x + 5, y + height / 2 + size * 0.65)
}

/** Draw the frames of groups whose assets are drawn. */
export function paintFrames(scene: Scene, marked: number): void {
  const { camera, context, palette, plan, model } = scene
  if (plan.grouping !== 'prefix') return
  const size = Math.min(14, Math.max(9, Math.round(13 * camera.zoom)))
  const character = useFont(context, size, palette.mono)
  context.textBaseline = 'middle'
  context.textAlign = 'left'
  for (let number = 0; number < plan.blocks.length; number += 1) {
    const block = plan.blocks[number]!
    const frame = frameOf(scene, block)
    if (frame === null) continue
    context.strokeStyle = number === marked ? palette.accent : palette.line
    context.lineWidth = 1
    context.strokeRect(frame.x + 0.5, frame.y + 0.5, frame.width - 1, frame.height - 1)
    const most = Math.floor((frame.width - 16 * camera.zoom) / character)
    if (most < 3) continue
    context.fillStyle = palette.quiet
    const name = shortened(groupName(model.groups[block.group] ?? ''), most)
    context.fillText(name, frame.x + 12 * camera.zoom, frame.y + 15 * camera.zoom)
  }
}
