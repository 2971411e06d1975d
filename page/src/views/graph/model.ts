import { ASSET_STATES } from '../../states'

/** The document of `GET /assets/graph/layout`. A node: asset, layer, order, kind, workflow, group. */
export interface GraphLayout {
  epoch: number
  layers: number
  groups: string[]
  nodes: [string, number, number, 'asset' | 'source', string | null, number][]
  /** Number of the input, number of what is made from it, and 1 if a change of the input triggers a run. */
  edges: [number, number, number][]
}

/** The document of `GET /assets/states`. */
export interface AssetStates {
  at: string
  position: number
  epoch: number
  states: Record<string, string>
}

/** The edges of all nodes in one direction: those of node `n` are at `start[n]` to `start[n + 1]`. */
export interface Links {
  readonly start: Uint32Array
  readonly ends: Uint32Array
  readonly triggers: Uint8Array
}

const CODES = new Map<string, number>(ASSET_STATES.map((state, code) => [state, code]))
export const RETIRED = CODES.get('retired')!
export const RUNNING = CODES.get('running')!
const FRESH = CODES.get('fresh')!
const SOURCE = CODES.get('source')!

/** Return the number of a state; one that a newer server has looks retired. */
export const codeOf = (state: string): number => CODES.get(state) ?? RETIRED
export const stateOf = (code: number): string => ASSET_STATES[code] ?? 'retired'
export const needsAttention = (code: number): boolean => code !== FRESH && code !== SOURCE && code !== RETIRED
export const isSource = (code: number): boolean => code === SOURCE

/** The assets and edges, by number, in arrays: 10,000 objects would be slow to walk. */
export class GraphModel {
  readonly size: number
  readonly epoch: number
  readonly ids: readonly string[]
  readonly slugs: readonly (string | null)[]
  readonly groups: readonly string[]
  readonly group: Uint32Array
  readonly layer: Uint32Array
  readonly order: Uint32Array
  readonly inputs: Links
  readonly outputs: Links
  /** All nodes by layer and order: any subset in this order can be placed without sorting. */
  readonly sorted: Uint32Array
  readonly numbers: ReadonlyMap<string, number>
  readonly made: ReadonlyMap<string, readonly number[]>

  constructor(layout: GraphLayout) {
    const { nodes, edges } = layout
    this.size = nodes.length
    this.epoch = layout.epoch
    this.groups = layout.groups
    this.ids = nodes.map((one) => one[0])
    this.layer = Uint32Array.from(nodes, (one) => one[1])
    this.order = Uint32Array.from(nodes, (one) => one[2])
    this.slugs = nodes.map((one) => one[4])
    this.group = Uint32Array.from(nodes, (one) => one[5])
    this.outputs = linksOf(nodes.length, edges, 0)
    this.inputs = linksOf(nodes.length, edges, 1)
    this.sorted = Uint32Array.from(nodes.keys()).sort(
      (a, b) => this.layer[a]! - this.layer[b]! || this.order[a]! - this.order[b]! || a - b)
    this.numbers = new Map(this.ids.map((id, number) => [id, number]))
    const made = new Map<string, number[]>()
    for (const [number, slug] of this.slugs.entries()) {
      if (slug === null) continue
      const known = made.get(slug)
      if (known === undefined) made.set(slug, [number])
      else known.push(number)
    }
    this.made = made
  }

  numberOf(id: string | undefined): number {
    return id === undefined ? -1 : this.numbers.get(id) ?? -1
  }
}

function linksOf(size: number, edges: GraphLayout['edges'], side: 0 | 1): Links {
  const start = new Uint32Array(size + 1)
  for (const edge of edges) start[edge[side] + 1]! += 1
  for (let node = 0; node < size; node += 1) start[node + 1]! += start[node]!
  const next = start.slice()
  const ends = new Uint32Array(edges.length)
  const triggers = new Uint8Array(edges.length)
  for (const edge of edges) {
    const at = next[edge[side]]!
    next[edge[side]]! += 1
    ends[at] = edge[side === 0 ? 1 : 0]
    triggers[at] = edge[2]
  }
  return { start, ends, triggers }
}

/** Add to `mask` what is reached from its members along the edges, in at most so many steps. */
export function reach(mask: Uint8Array, links: Links, steps = Infinity): void {
  let front: number[] = []
  for (let node = 0; node < mask.length; node += 1) if (mask[node]) front.push(node)
  for (let step = 0; step < steps && front.length > 0; step += 1) {
    const next: number[] = []
    for (const node of front) {
      for (let edge = links.start[node]!; edge < links.start[node + 1]!; edge += 1) {
        const end = links.ends[edge]!
        if (mask[end]) continue
        mask[end] = 1
        next.push(end)
      }
    }
    front = next
  }
}

/** Return the neighbours of a node on one side. */
export function neighbours(links: Links, node: number): Uint32Array {
  return links.ends.subarray(links.start[node]!, links.start[node + 1]!)
}
