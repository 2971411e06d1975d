import type { GraphModel } from './model'

/**
 * Where the shown assets are, in units of the drawing.
 *
 * A position depends only on the layers, orders and groups of what is shown, never on a state. A layer is a column,
 * from left to right; one with many assets is folded into several columns. The assets are numbered by slots in the
 * order of the columns, so what is in a part of the plane is found by dividing, without an index.
 */
export const CELL = { width: 176, height: 26, pitchX: 192 }
export const BOX = { width: 208, height: 60, pitchX: 240, pitchY: 76 }
const LAYER_GAP = 56
/** From the upper edge of a cell to that of the next one: the fewer there are, the more room. */
const PITCHES: readonly (readonly [number, number])[] = [[6, 64], [10, 52], [16, 42], [Infinity, 34]]
const NARROW = 34
const MIN_ROWS = 12
const HEAD = 30
const PAD = 12
const BLOCK_GAP = 20

/** `none`: one field; `prefix`: a frame per group; `boxes`: a box per group, without its assets. */
export type Grouping = 'none' | 'prefix' | 'boxes'

export interface Column {
  readonly x: number
  readonly y: number
  readonly first: number
  readonly count: number
}

export interface Block {
  readonly group: number
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
  readonly columns: readonly Column[]
  readonly pitch: number
  readonly first: number
  readonly count: number
}

export interface Arrangement {
  readonly grouping: Grouping
  readonly width: number
  readonly height: number
  readonly blocks: readonly Block[]
  /** The node of each slot, and the slot of each node (-1: not shown). */
  readonly nodes: Uint32Array
  readonly slots: Int32Array
  /** The upper left corner of each slot; of `boxes`, of its group. */
  readonly x: Float32Array
  readonly y: Float32Array
  /** Edges between groups, as pairs of numbers of blocks; of `boxes` only. */
  readonly bundles: Uint32Array
}

interface Size {
  readonly width: number
  readonly height: number
  readonly pitchX: number
  /** Not given: it depends on how many are below each other. */
  readonly pitchY?: number
}

interface Field {
  readonly width: number
  readonly height: number
  readonly pitch: number
  /** Columns with `first` counted from the first of the field. */
  readonly columns: readonly Column[]
}

/** Place what is shown. `aspect`: the width that the drawing should have for its height. */
export function arrange(model: GraphModel, mask: Uint8Array, grouping: Grouping, aspect: number): Arrangement {
  const shown = model.sorted.filter((node) => mask[node] === 1)
  if (grouping === 'none') return placed(model, grouping, [{ group: -1, nodes: shown }], aspect)
  const members = new Map<number, number[]>()
  for (const node of shown) {
    const known = members.get(model.group[node]!)
    if (known === undefined) members.set(model.group[node]!, [node])
    else known.push(node)
  }
  const groups = [...members].map(([group, nodes]) => ({ group, nodes: Uint32Array.from(nodes) }))
  const mean = new Map(groups.map((one) => [one.group, meanOf(one.nodes, model.layer)]))
  // Sources are on the left as in a graph without groups.
  groups.sort((a, b) => mean.get(a.group)! - mean.get(b.group)! || a.group - b.group)
  return grouping === 'boxes' ? boxed(model, groups, mean, aspect) : placed(model, grouping, groups, aspect)
}

interface Members {
  readonly group: number
  readonly nodes: Uint32Array
}

function placed(model: GraphModel, grouping: Grouping, groups: readonly Members[], aspect: number): Arrangement {
  const framed = grouping === 'prefix'
  const fields = groups.map((one) => fieldOf(layersOf(one.nodes, model.layer), CELL, aspect))
  const sizes = fields.map((one) => ({
    width: one.width + (framed ? 2 * PAD : 0), height: one.height + (framed ? HEAD + PAD : 0),
  }))
  const corners = pack(sizes, aspect)
  const arrangement = empty(model, grouping, groups)
  const blocks: Block[] = []
  let first = 0
  for (const [number, field] of fields.entries()) {
    const { x, y } = corners[number]!
    const left = x + (framed ? PAD : 0)
    const top = y + (framed ? HEAD : 0)
    const columns = field.columns.map((one) => ({ ...one, x: left + one.x, y: top + one.y, first: first + one.first }))
    for (const column of columns) {
      arrangement.x.fill(column.x, column.first, column.first + column.count)
      for (let row = 0; row < column.count; row += 1) arrangement.y[column.first + row] = column.y + row * field.pitch
    }
    const count = groups[number]!.nodes.length
    blocks.push({ group: groups[number]!.group, x, y, ...sizes[number]!, columns, pitch: field.pitch, first, count })
    first += count
  }
  return { ...arrangement, blocks, ...extent(blocks) }
}

function boxed(
  model: GraphModel, groups: readonly Members[], mean: ReadonlyMap<number, number>, aspect: number,
): Arrangement {
  const layers = Uint32Array.from(groups, (one) => Math.round(mean.get(one.group)!))
  const field = fieldOf(layersOf(Uint32Array.from(groups.keys()), layers), BOX, aspect)
  const arrangement = empty(model, 'boxes', groups)
  const blocks: Block[] = []
  let first = 0
  for (const column of field.columns) {
    for (let row = 0; row < column.count; row += 1) {
      const one = groups[column.first + row]!
      const y = column.y + row * field.pitch
      arrangement.x.fill(column.x, first, first + one.nodes.length)
      arrangement.y.fill(y, first, first + one.nodes.length)
      blocks.push({
        group: one.group, x: column.x, y, width: BOX.width, height: BOX.height, columns: [], pitch: field.pitch, first, count: one.nodes.length,
      })
      first += one.nodes.length
    }
  }
  return { ...arrangement, blocks, ...extent(blocks), bundles: bundlesOf(model, arrangement.slots, groups) }
}

function empty(model: GraphModel, grouping: Grouping, groups: readonly Members[]): Arrangement {
  const count = groups.reduce((sum, one) => sum + one.nodes.length, 0)
  const nodes = new Uint32Array(count)
  const slots = new Int32Array(model.size).fill(-1)
  let slot = 0
  for (const one of groups) {
    for (const node of one.nodes) {
      nodes[slot] = node
      slots[node] = slot
      slot += 1
    }
  }
  return {
    grouping, width: 0, height: 0, blocks: [], nodes, slots,
    x: new Float32Array(count), y: new Float32Array(count), bundles: new Uint32Array(),
  }
}

function bundlesOf(model: GraphModel, slots: Int32Array, groups: readonly Members[]): Uint32Array {
  const block = new Map(groups.map((one, number) => [one.group, number]))
  const pairs = new Set<number>()
  for (const one of groups) {
    const from = block.get(one.group)!
    for (const node of one.nodes) {
      for (let edge = model.outputs.start[node]!; edge < model.outputs.start[node + 1]!; edge += 1) {
        const end = model.outputs.ends[edge]!
        const to = block.get(model.group[end]!)
        if (slots[end]! >= 0 && to !== undefined && to !== from) pairs.add(from * groups.length + to)
      }
    }
  }
  return Uint32Array.from([...pairs].flatMap((one) => [Math.floor(one / groups.length), one % groups.length]))
}

/** Return how many members each layer has; `nodes` are sorted by layer. Empty layers take no room. */
function layersOf(nodes: Uint32Array, layer: Uint32Array): number[] {
  const counts: number[] = []
  let last = -1
  for (const node of nodes) {
    if (layer[node] !== last) {
      counts.push(0)
      last = layer[node]!
    }
    counts[counts.length - 1]! += 1
  }
  return counts
}

function fieldOf(layers: readonly number[], size: Size, aspect: number): Field {
  const count = layers.reduce((sum, one) => sum + one, 0)
  const most = Math.max(MIN_ROWS, Math.ceil(Math.sqrt((count * size.pitchX) / ((size.pitchY ?? NARROW) * aspect))))
  const folded = layers.map((one) => Math.ceil(one / Math.ceil(one / most)))
  const rows = Math.max(0, ...folded)
  const pitch = size.pitchY ?? PITCHES.find(([least]) => rows <= least)![1]
  const columns: Column[] = []
  let x = 0
  let first = 0
  for (const [number, members] of layers.entries()) {
    const tall = folded[number]!
    const y = ((rows - tall) * pitch) / 2
    for (let left = members; left > 0; left -= tall) {
      columns.push({ x, y, first, count: Math.min(left, tall) })
      first += Math.min(left, tall)
      x += size.pitchX
    }
    x += LAYER_GAP
  }
  return {
    columns,
    pitch,
    width: Math.max(0, x - LAYER_GAP - (size.pitchX - size.width)),
    height: Math.max(0, rows * pitch - (pitch - size.height)),
  }
}

/** Put rectangles into columns, in their order, so that all have about the wanted proportion. */
function pack(sizes: readonly { width: number; height: number }[], aspect: number): { x: number; y: number }[] {
  const area = sizes.reduce((sum, one) => sum + (one.width + BLOCK_GAP) * (one.height + BLOCK_GAP), 0)
  const tallest = Math.max(0, ...sizes.map((one) => one.height))
  const most = Math.max(tallest, Math.sqrt(area / aspect))
  const corners: { x: number; y: number }[] = []
  let x = 0
  let y = 0
  let wide = 0
  for (const one of sizes) {
    if (y > 0 && y + one.height > most) {
      x += wide + BLOCK_GAP
      y = 0
      wide = 0
    }
    corners.push({ x, y })
    y += one.height + BLOCK_GAP
    wide = Math.max(wide, one.width)
  }
  return corners
}

function extent(blocks: readonly Block[]): { width: number; height: number } {
  return {
    width: Math.max(0, ...blocks.map((one) => one.x + one.width)),
    height: Math.max(0, ...blocks.map((one) => one.y + one.height)),
  }
}

function meanOf(nodes: Uint32Array, values: Uint32Array): number {
  let sum = 0
  for (const node of nodes) sum += values[node]!
  return sum / Math.max(1, nodes.length)
}

/** Collect the slots whose cells touch a rectangle; return their number. `into` is large enough for all. */
export function slotsIn(
  plan: Arrangement, left: number, top: number, right: number, bottom: number, into: Uint32Array,
): number {
  let count = 0
  for (const block of plan.blocks) {
    if (block.x > right || block.y > bottom || block.x + block.width < left || block.y + block.height < top) continue
    for (const column of block.columns) {
      if (column.x > right || column.x + CELL.width < left) continue
      const from = Math.max(0, Math.floor((top - column.y - CELL.height) / block.pitch) + 1)
      const to = Math.min(column.count - 1, Math.floor((bottom - column.y) / block.pitch))
      for (let row = from; row <= to; row += 1) {
        into[count] = column.first + row
        count += 1
      }
    }
  }
  return count
}

/** Return the slot at a point; -1: none. `slack`: how far beside a cell still counts, for cells of few pixels. */
export function slotAt(plan: Arrangement, x: number, y: number, slack: number): number {
  for (const block of plan.blocks) {
    if (x < block.x - slack || y < block.y - slack || x > block.x + block.width + slack) continue
    for (const column of block.columns) {
      if (x < column.x - slack || x > column.x + CELL.width + slack) continue
      const row = Math.round((y - column.y - CELL.height / 2) / block.pitch)
      if (row < 0 || row >= column.count) continue
      if (Math.abs(y - column.y - row * block.pitch - CELL.height / 2) <= CELL.height / 2 + slack) return column.first + row
    }
  }
  return -1
}

/** Return the number of the block at a point; -1: none. */
export function blockAt(plan: Arrangement, x: number, y: number): number {
  return plan.blocks.findIndex((one) =>
    x >= one.x && x <= one.x + one.width && y >= one.y && y <= one.y + one.height)
}
