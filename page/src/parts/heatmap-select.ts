import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { Layout } from './heatmap-layout'

/** The indexes of the first and the last selected cell. */
export type Selected = readonly [number, number]

const SETTLED_MS = 150

/**
 * The selection while it changes. It is told when it has settled: it is a part of the address, and browsers allow only
 * some changes of the address a second.
 */
export function useDraft(onSelect: ((selected: Selected | null) => void) | undefined): {
  /** Undefined: there is none, and what was told is shown. */
  readonly shown: Selected | null | undefined
  readonly set: (selected: Selected | null) => void
  readonly commit: () => void
} {
  const draft = useSignal<Selected | null | undefined>(undefined)
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined)
  const tell = useRef(onSelect)
  tell.current = onSelect
  useEffect(() => () => clearTimeout(timer.current), [])
  const commit = (): void => {
    clearTimeout(timer.current)
    const settled = draft.peek()
    if (settled === undefined) return
    draft.value = undefined
    tell.current?.(settled)
  }
  return {
    shown: draft.value,
    commit,
    set(selected) {
      draft.value = selected
      clearTimeout(timer.current)
      timer.current = setTimeout(commit, SETTLED_MS)
    },
  }
}

/** Return how far a key goes along the cells; null for other keys. */
export function stepOf(key: string, layout: Layout, total: number): number | null {
  const { across, down } = layout.steps
  const steps: Record<string, number> = {
    ArrowLeft: -across, ArrowRight: across, ArrowUp: -down, ArrowDown: down, Home: -total, End: total,
    PageUp: -across * 10, PageDown: across * 10,
  }
  return Object.hasOwn(steps, key) ? steps[key]! : null
}

export interface Pointer {
  readonly onPointerDown: (event: PointerEvent) => void
  readonly onPointerMove: (event: PointerEvent) => void
  readonly onPointerUp: () => void
  readonly onPointerCancel: () => void
  readonly onPointerLeave: () => void
}

/** Follow the pointer: a drag selects, and what is below it is the cursor. */
export function usePointer(
  layout: Layout | null, cursor: { value: number | null }, anchor: { current: number | null },
  extend: ((to: number) => void) | null, commit: () => void,
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
      commit()
    },
    onPointerCancel() {
      dragging.current = false
      commit()
    },
    onPointerLeave() {
      if (!dragging.current) cursor.value = null
    },
  }
}
