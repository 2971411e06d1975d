import type { Arrangement } from './arrange'
import { neighbours, type GraphModel, type Links } from './model'

export type Direction = 'left' | 'right' | 'up' | 'down'

/**
 * Return the node that an arrow key leads to; -1: none. Left is an input and right an output, the nearest one that is
 * shown; up and down stay in the layer.
 */
export function step(model: GraphModel, plan: Arrangement, node: number, direction: Direction): number {
  const slot = plan.slots[node] ?? -1
  if (slot < 0) return -1
  if (direction === 'left') return nearest(model.inputs, plan, node)
  if (direction === 'right') return nearest(model.outputs, plan, node)
  const next = plan.nodes[slot + (direction === 'down' ? 1 : -1)]
  if (next === undefined || model.layer[next] !== model.layer[node]) return -1
  return plan.grouping === 'none' || model.group[next] === model.group[node] ? next : -1
}

function nearest(links: Links, plan: Arrangement, node: number): number {
  const y = plan.y[plan.slots[node]!]!
  let best = -1
  let least = Infinity
  for (const end of neighbours(links, node)) {
    const slot = plan.slots[end]!
    if (slot < 0) continue
    const distance = Math.abs(plan.y[slot]! - y)
    if (distance < least) {
      least = distance
      best = end
    }
  }
  return best
}

/** Return the shown node that is nearest to a point; -1: none. */
export function nearestTo(plan: Arrangement, x: number, y: number): number {
  let best = -1
  let least = Infinity
  for (let slot = 0; slot < plan.nodes.length; slot += 1) {
    const distance = Math.hypot(plan.x[slot]! - x, plan.y[slot]! - y)
    if (distance < least) {
      least = distance
      best = plan.nodes[slot]!
    }
  }
  return best
}
