import { useSignal } from '@preact/signals'
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import { count, visible } from '../format'
import { look } from '../states'
import { dark } from '../theme'
import { State } from './basics'
import { layoutOf, MARKED_FROM, type Layout } from './heatmap-layout'
import { between, countsText, countStates, type Cells, type StateRange } from './partition-cells'
import { Table } from './table'
import { useWidth } from './width'
import './heatmap.css'

/** The indexes of the first and the last selected cell. */
export type Selected = readonly [number, number]

/**
 * The states of many partitions as coloured cells. A drag, or shift with the arrow keys, selects a range. At sizes that
 * have room for it a cell has the mark of its state, and a table says the same for those who do not see the picture.
 */
export function Heatmap({ cells, label, selected, onSelect, good = 'fresh', most }: {
  cells: Cells
  label: string
  selected: Selected | null
  /** Null: nothing is selected any more. Without it nothing can be selected. */
  onSelect?: (selected: Selected | null) => void
  /** The state that all should have. */
  good?: string
  /** The greatest height. */
  most?: number
}) {
  const { box: frame, width } = useWidth()
  const cursor = useSignal<number | null>(null)
  const focused = useSignal(false)
  const layout = useMemo(() => (width > 0 ? layoutOf(cells, width, most) : null), [cells, width, most])
  const at = cursor.value !== null && cursor.value < cells.total ? cursor.value : null
  const anchor = useRef<number | null>(null)

  const extend = (to: number): void => {
    anchor.current ??= to
    onSelect?.(between(anchor.current, to))
  }
  const key = (event: KeyboardEvent): void => {
    const step = layout === null ? null : stepOf(event.key, layout, cells.total)
    if (event.key === 'Escape') {
      anchor.current = null
      onSelect?.(null)
      return
    }
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault()
      anchor.current = null
      if (at !== null) extend(at)
      return
    }
    if (step === null) return
    event.preventDefault()
    const from = at ?? cells.total - 1
    const to = at === null && event.key !== 'Home' ? from : Math.min(cells.total - 1, Math.max(0, from + step))
    if (event.shiftKey) {
      anchor.current ??= from
      extend(to)
    } else anchor.current = null
    cursor.value = to
  }
  const pointer = usePointer(layout, cursor, anchor, onSelect === undefined ? null : extend)

  return (
    <div class="heatmap">
      <div
        ref={frame} class="heatmap-frame" role="application" tabIndex={0}
        aria-label={`${label}: ${countsText(countStates(cells), cells.total, good)}`}
        aria-roledescription="heat map"
        onKeyDown={key}
        onFocus={() => { focused.value = true }}
        onBlur={() => { focused.value = false }}
      >
        {layout === null ? null : (
          <>
            <Picture cells={cells} layout={layout} />
            <Overlay layout={layout} cursor={at} selected={selected} pointer={pointer} />
          </>
        )}
        {layout !== null && at !== null ? <Tip cells={cells} layout={layout} index={at} /> : null}
      </div>
      <p class="hidden-text" aria-live="polite">{focused.value && at !== null ? cellText(cells, at) : ''}</p>
      <Legend cells={cells} />
    </div>
  )
}

function stepOf(key: string, layout: Layout, total: number): number | null {
  const { across, down } = layout.steps
  const steps: Record<string, number> = {
    ArrowLeft: -across, ArrowRight: across, ArrowUp: -down, ArrowDown: down, Home: -total, End: total,
    PageUp: -across * 10, PageDown: across * 10,
  }
  return Object.hasOwn(steps, key) ? steps[key]! : null
}

interface Pointer {
  readonly onPointerDown: (event: PointerEvent) => void
  readonly onPointerMove: (event: PointerEvent) => void
  readonly onPointerUp: (event: PointerEvent) => void
  readonly onPointerLeave: () => void
}

function usePointer(
  layout: Layout | null, cursor: { value: number | null }, anchor: { current: number | null },
  extend: ((to: number) => void) | null,
): Pointer {
  const dragging = useRef(false)
  const cellAt = (event: PointerEvent): number | null => {
    if (layout === null || !(event.currentTarget instanceof HTMLElement)) return null
    const box = event.currentTarget.getBoundingClientRect()
    return layout.at(event.clientX - box.left, event.clientY - box.top)
  }
  return {
    onPointerDown(event) {
      const found = cellAt(event)
      if (found === null || extend === null || event.button !== 0) return
      if (!event.shiftKey) anchor.current = null
      dragging.current = true
      if (event.currentTarget instanceof HTMLElement) event.currentTarget.setPointerCapture(event.pointerId)
      extend(found)
    },
    onPointerMove(event) {
      const found = cellAt(event)
      if (found === null) {
        if (!dragging.current) cursor.value = null
        return
      }
      if (cursor.value === found) return
      cursor.value = found
      if (dragging.current) extend?.(found)
    },
    onPointerUp() {
      dragging.current = false
    },
    onPointerLeave() {
      if (!dragging.current) cursor.value = null
    },
  }
}

/** Prepare a canvas for the density of the screen, and return its context. */
function contextOf(canvas: HTMLCanvasElement, layout: Layout): CanvasRenderingContext2D | null {
  const density = globalThis.devicePixelRatio || 1
  canvas.width = Math.round(layout.width * density)
  canvas.height = Math.round(layout.height * density)
  const context = canvas.getContext('2d')
  context?.scale(density, density)
  return context
}

/** Return the value of a custom property, as the theme has it now. */
const colourOf = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()

function Picture({ cells, layout }: { cells: Cells; layout: Layout }) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const night = dark.value
  useLayoutEffect(() => {
    const context = canvas.current === null ? null : contextOf(canvas.current, layout)
    if (context !== null) draw(context, cells, layout)
  }, [cells, layout, night])
  return <canvas ref={canvas} aria-hidden="true" style={{ width: `${layout.width}px`, height: `${layout.height}px` }} />
}

function draw(context: CanvasRenderingContext2D, cells: Cells, layout: Layout): void {
  context.fillStyle = colourOf('quiet')
  context.font = '11px system-ui, sans-serif'
  context.textBaseline = 'middle'
  for (const { x, y, text } of layout.labels) context.fillText(text, x, y)
  const mark = colourOf('panel')
  let index = 0
  for (const range of cells.ranges) {
    const { colour, mark: path } = look(range.state)
    context.fillStyle = colourOf(`state-${colour}`)
    const drawn = layout.size >= MARKED_FROM && !PLAIN.has(range.state) ? new Path2D(path) : null
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

function Overlay({ layout, cursor, selected, pointer }: {
  layout: Layout
  cursor: number | null
  selected: Selected | null
  pointer: Pointer
}) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const night = dark.value
  useEffect(() => {
    const context = canvas.current === null ? null : contextOf(canvas.current, layout)
    if (context === null) return
    context.strokeStyle = colourOf('text')
    const wide = layout.size >= 8 ? 2 : 1
    if (selected !== null) outline(context, layout, selected, wide)
    if (cursor !== null) {
      const { x, y } = layout.cell(cursor)
      context.lineWidth = wide + 1
      context.strokeRect(x - 0.5, y - 0.5, layout.size + 1, layout.size + 1)
    }
  }, [layout, cursor, selected?.[0], selected?.[1], night])
  return (
    <canvas
      ref={canvas} class="heatmap-overlay" aria-hidden="true" {...pointer}
      style={{ width: `${layout.width}px`, height: `${layout.height}px` }}
    />
  )
}

/** Draw the border of a selection: the edges of its cells behind which there is none of it. */
function outline(context: CanvasRenderingContext2D, layout: Layout, [first, last]: Selected, width: number): void {
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

/** What the states of a backfill are called: the rest of it is still to come. */
const NAMES: Readonly<Record<string, string>> = { rest: 'to come', waiting: 'held' }
const nameOf = (state: string): string => NAMES[state] ?? state

/** Return what a cell says: its key and its state. */
export function cellText(cells: Cells, index: number): string {
  const key = cells.keyOf(index)
  return `${key === null ? `partition ${count(index + 1)} of ${count(cells.total)}` : visible(key)}: ${nameOf(cells.stateOf(index))}`
}

function Tip({ cells, layout, index }: { cells: Cells; layout: Layout; index: number }) {
  const { x, y } = layout.cell(index)
  // To the side where there is room.
  const place = x > layout.width / 2
    ? { right: `${layout.width - x + 6}px`, top: `${y - 4}px` }
    : { left: `${x + layout.size + 6}px`, top: `${y - 4}px` }
  return <div class="heatmap-tip" style={place} aria-hidden="true">{cellText(cells, index)}</div>
}

function Legend({ cells }: { cells: Cells }) {
  const counts = Object.entries(countStates(cells))
  return (
    <p class="heatmap-legend">
      {counts.map(([state, n]) => <span key={state} class="row"><State of={state} label={nameOf(state)} /> <span class="quiet">{count(n)}</span></span>)}
    </p>
  )
}

/** The same as a table: equal states in a row are one line, the newest first. */
export function RangeTable({ cells, label }: { cells: Cells; label: string }) {
  const most = useSignal(FEW_LINES)
  const rows = useMemo(() => linesOf(cells).map((one, number) => ({ ...one, number })), [cells])
  return (
    <>
      <Table
        items={rows.slice(0, most.value)} id={(one) => String(one.number)} label={label}
        columns={[
          { title: 'State', cell: (one) => <State of={one.state} /> },
          { title: 'From', cell: (one) => <code>{visible(one.from)}</code> },
          { title: 'To', cell: (one) => (one.count > 1 ? <code>{visible(one.to)}</code> : <span class="quiet">–</span>) },
          { title: 'Partitions', number: true, cell: (one) => count(one.count) },
        ]}
      />
      {rows.length > most.value
        ? <p class="list-end"><button type="button" onClick={() => { most.value += 500 }}>{count(rows.length - most.value)} more lines</button></p> : null}
    </>
  )
}

const FEW_LINES = 25
const FEW_KEYS = 200

/** Ranges, the newest first. Keys that are no times are listed one by one if they are few: a range says little of them. */
export function linesOf(cells: Cells): readonly StateRange[] {
  if (cells.grain !== null) return [...cells.ranges].reverse()
  const keys = cells.total > FEW_KEYS ? [] : Array.from({ length: cells.total }, (_, index) => cells.keyOf(index))
  if (keys.length > 0 && !keys.includes(null)) {
    return keys.map((key, index) => ({ state: cells.stateOf(index), from: key!, to: key!, count: 1 }))
  }
  // The first of a listing is the end of a range in the API.
  return cells.ranges.map((one) => ({ ...one, from: one.to, to: one.from }))
}
