import { look } from '../states'
import { MARKED_FROM, type Layout } from './heatmap-layout'
import type { Selected } from './heatmap-select'
import type { Cells } from './partition-cells'

/** Prepare a canvas for the density of the screen, and return its context. */
export function contextOf(canvas: HTMLCanvasElement, layout: Layout): CanvasRenderingContext2D | null {
  const density = globalThis.devicePixelRatio || 1
  canvas.width = Math.round(layout.width * density)
  canvas.height = Math.round(layout.height * density)
  const context = canvas.getContext('2d')
  context?.scale(density, density)
  return context
}

/** Return the value of a custom property, as the theme has it now. */
export const colourOf = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()

/** Draw all cells with the labels of the axes. */
export function draw(context: CanvasRenderingContext2D, cells: Cells, layout: Layout): void {
  context.fillStyle = colourOf('quiet')
  context.font = '11px system-ui, sans-serif'
  context.textBaseline = 'middle'
  for (const { x, y, text } of layout.labels) context.fillText(text, x, y)
  const mark = colourOf('panel')
  // Many ranges have few states.
  const styles = new Map<string, { colour: string; mark: Path2D | null }>()
  const styleOf = (state: string): { colour: string; mark: Path2D | null } => {
    const known = styles.get(state)
    if (known !== undefined) return known
    const { colour, mark: path } = look(state)
    const marked = layout.size >= MARKED_FROM && !PLAIN.has(state)
    const made = { colour: colourOf(`state-${colour}`), mark: marked ? new Path2D(path) : null }
    styles.set(state, made)
    return made
  }
  let index = 0
  for (const range of cells.ranges) {
    const { colour, mark: drawn } = styleOf(range.state)
    context.fillStyle = colour
    for (const end = index + range.count; index < end; index += 1) {
      const { x, y } = layout.cell(index)
      context.fillRect(x, y, layout.size, layout.size)
      if (drawn === null) continue
      context.save()
      context.translate(x, y)
      context.scale(layout.size / 16, layout.size / 16)
      context.strokeStyle = mark
      context.lineWidth = 2
      context.lineCap = 'round'
      context.stroke(drawn)
      context.restore()
    }
  }
}

/** What needs no attention has no mark: what has one stands out also without its colour. */
const PLAIN = new Set(['fresh', 'done'])

/** Draw the border of a selection: the edges of its cells behind which there is none of it. */
export function outline(context: CanvasRenderingContext2D, layout: Layout, [first, last]: Selected, width: number): void {
  const { size, pitch } = layout
  const out = pitch - size > 0 ? 1 : 0
  const chosen = (x: number, y: number): boolean => {
    const found = layout.at(x, y)
    return found !== null && found >= first && found <= last
  }
  context.lineWidth = width
  context.beginPath()
  for (let index = first; index <= last; index += 1) {
    const { x, y } = layout.cell(index)
    const [left, top, right, bottom] = [x - out, y - out, x + size + out, y + size + out]
    const [middleX, middleY] = [x + size / 2, y + size / 2]
    const edges: readonly (readonly [boolean, number, number, number, number])[] = [
      [chosen(middleX, middleY - pitch), left, top, right, top],
      [chosen(middleX, middleY + pitch), left, bottom, right, bottom],
      [chosen(middleX - pitch, middleY), left, top, left, bottom],
      [chosen(middleX + pitch, middleY), right, top, right, bottom],
    ]
    for (const [inside, x1, y1, x2, y2] of edges) {
      if (inside) continue
      context.moveTo(x1, y1)
      context.lineTo(x2, y2)
    }
  }
  context.stroke()
}
