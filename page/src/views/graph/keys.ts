import type { Arrangement } from './arrange'
import type { GraphModel } from './model'
import type { Renderer } from './renderer'
import { nearestTo, step, type Direction } from './walk'

const ARROWS: Readonly<Record<string, Direction>> = {
  ArrowLeft: 'left', ArrowRight: 'right', ArrowUp: 'up', ArrowDown: 'down',
}
const STEP = 1.4

export interface Keyed {
  readonly model: GraphModel
  readonly plan: Arrangement
  readonly focus: number
  readonly renderer: Renderer
  select(node: number): void
  open(id: string): void
  clear(): void
}

/** Do what a key says; return whether it says something here. */
export function handleKey(key: string, on: Keyed): boolean {
  const direction = ARROWS[key]
  if (direction !== undefined) {
    move(direction, on)
    return true
  }
  switch (key) {
    case 'Enter':
      if (on.focus < 0) return false
      on.open(on.model.ids[on.focus]!)
      return true
    case '+':
    case '=':
      on.renderer.zoom(STEP)
      return true
    case '-':
      on.renderer.zoom(1 / STEP)
      return true
    case '0':
      on.renderer.fit()
      return true
    case 'Escape':
      on.clear()
      return true
    default:
      return false
  }
}

function move(direction: Direction, on: Keyed): void {
  const { x, y } = on.renderer.centre
  const there = on.focus >= 0 && on.plan.slots[on.focus]! >= 0
  const next = there ? step(on.model, on.plan, on.focus, direction) : nearestTo(on.plan, x, y)
  if (next < 0) return
  on.select(next)
  on.renderer.reveal(next, false)
}
