import { useSignal } from '@preact/signals'
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import { count } from '../format'
import { dark } from '../theme'
import { State } from './basics'
import { colourOf, contextOf, draw, outline } from './heatmap-draw'
import { layoutOf, type Layout } from './heatmap-layout'
import { stepOf, useDraft, usePointer, type Pointer, type Selected } from './heatmap-select'
import { between, cellText, countsText, countStates, stateName, type Cells } from './partition-cells'
import { useWidth } from './width'
import './heatmap.css'

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

  const draft = useDraft(onSelect)
  const extend = (to: number): void => {
    anchor.current ??= to
    draft.set(between(anchor.current, to))
  }
  const key = (event: KeyboardEvent): void => {
    const step = layout === null ? null : stepOf(event.key, layout, cells.total)
    if (event.key === 'Escape') {
      anchor.current = null
      draft.set(null)
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
  const pointer = usePointer(layout, cursor, anchor, onSelect === undefined ? null : extend, draft.commit)

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
            <Overlay layout={layout} cursor={at} selected={draft.shown === undefined ? selected : draft.shown} pointer={pointer} />
          </>
        )}
        {layout !== null && at !== null ? <Tip cells={cells} layout={layout} index={at} /> : null}
      </div>
      <p class="hidden-text" aria-live="polite">{focused.value && at !== null ? cellText(cells, at) : ''}</p>
      <Legend cells={cells} />
    </div>
  )
}

function Picture({ cells, layout }: { cells: Cells; layout: Layout }) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const night = dark.value
  useLayoutEffect(() => {
    const context = canvas.current === null ? null : contextOf(canvas.current, layout)
    if (context !== null) draw(context, cells, layout)
  }, [cells, layout, night])
  return <canvas ref={canvas} aria-hidden="true" style={{ width: `${layout.width}px`, height: `${layout.height}px` }} />
}

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
      {counts.map(([state, n]) => <span key={state} class="row"><State of={state} label={stateName(state)} /> <span class="quiet">{count(n)}</span></span>)}
    </p>
  )
}
