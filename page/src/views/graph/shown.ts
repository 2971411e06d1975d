import { needsAttention, reach, RETIRED, type GraphModel } from './model'
import { select, total } from './selection'

/** Which assets the graph shows. */
export type Mode = 'attention' | 'near' | 'all'

export interface Wish {
  readonly mode: Mode
  readonly search: string
  /** The asset whose neighbourhood is shown; -1: none. */
  readonly focus: number
  readonly steps: number
}

export interface Shown {
  readonly mask: Uint8Array
  readonly count: number
  /** Whether everything is shown because nothing needs attention. */
  readonly allFresh: boolean
  readonly unknown: readonly string[]
}

/**
 * Return what is shown. It is computed when the reader chooses something, not when a state changes: an asset that
 * becomes fresh stays where it is, and others wait behind a button, so that nothing moves while somebody looks.
 */
export function choose(model: GraphModel, states: Uint8Array, wish: Wish): Shown {
  const selection = select(model, states, wish.search)
  const mask = selection.mask.slice()
  const retired = (node: number): boolean => states[node] === RETIRED && !selection.byState && node !== wish.focus
  const keep = (test: (node: number) => boolean): void => {
    for (let node = 0; node < mask.length; node += 1) if (mask[node] && !test(node)) mask[node] = 0
  }
  let allFresh = false
  if (wish.mode === 'near' && wish.focus >= 0) {
    const near = around(model, wish.focus, wish.steps)
    keep((node) => near[node] === 1)
    mask[wish.focus] = 1
  } else if (wish.mode === 'attention') {
    const found = mask.slice()
    keep((node) => needsAttention(states[node]!))
    if (mask.includes(1)) {
      // Why something is not fresh is often above it.
      reach(mask, model.inputs)
    } else if (!anyNeedsAttention(states)) {
      allFresh = true
      mask.set(found)
    }
  }
  keep((node) => !retired(node))
  return { mask, count: total(mask), allFresh, unknown: selection.unknown }
}

/** Count the assets that need attention and are not shown. */
export function waiting(states: Uint8Array, mask: Uint8Array): number {
  let count = 0
  for (let node = 0; node < states.length; node += 1) if (!mask[node] && needsAttention(states[node]!)) count += 1
  return count
}

function around(model: GraphModel, focus: number, steps: number): Uint8Array {
  const above = new Uint8Array(model.size)
  above[focus] = 1
  const below = above.slice()
  reach(above, model.inputs, steps)
  reach(below, model.outputs, steps)
  for (let node = 0; node < above.length; node += 1) above[node]! |= below[node]!
  return above
}

function anyNeedsAttention(states: Uint8Array): boolean {
  for (const one of states) if (needsAttention(one)) return true
  return false
}
