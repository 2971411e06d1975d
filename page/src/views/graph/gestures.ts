/** What a pointer does on the canvas, in pixels of the page. */
export interface Gestures {
  pan(dx: number, dy: number): void
  zoom(factor: number, x: number, y: number): void
  click(x: number, y: number): void
  open(x: number, y: number): void
  hover(x: number, y: number): void
  leave(): void
}

/** A pointer that moved less than this has clicked. */
const CLICK_PX = 5

/** Follow mouse, pen and fingers: drag moves, wheel and pinch zoom. Return a function that ends it. */
export function follow(element: HTMLElement, act: Gestures): () => void {
  const pointers = new Map<number, { x: number; y: number }>()
  let moved = 0
  let spread = 0
  const ended = new AbortController()
  const options = { signal: ended.signal }

  const place = (event: MouseEvent): { x: number; y: number } => {
    const box = element.getBoundingClientRect()
    return { x: event.clientX - box.left, y: event.clientY - box.top }
  }
  const middle = (): { x: number; y: number; spread: number } => {
    const [one, other] = [...pointers.values()]
    if (one === undefined || other === undefined) return { x: 0, y: 0, spread: 0 }
    return {
      x: (one.x + other.x) / 2, y: (one.y + other.y) / 2, spread: Math.hypot(one.x - other.x, one.y - other.y),
    }
  }
  const pinch = (event: PointerEvent): void => {
    const before = middle()
    pointers.set(event.pointerId, place(event))
    const after = middle()
    act.pan(after.x - before.x, after.y - before.y)
    if (spread > 0 && after.spread > 0) act.zoom(after.spread / before.spread, after.x, after.y)
    spread = after.spread
    moved = CLICK_PX
  }

  element.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return
    pointers.set(event.pointerId, place(event))
    // A pointer that is pressed and leaves the canvas still drags.
    element.setPointerCapture(event.pointerId)
    if (pointers.size === 1) moved = 0
    spread = middle().spread
  }, options)
  element.addEventListener('pointermove', (event) => {
    const before = pointers.get(event.pointerId)
    const now = place(event)
    if (before === undefined) {
      if (event.pointerType !== 'touch') act.hover(now.x, now.y)
    } else if (pointers.size > 1) pinch(event)
    else {
      moved += Math.hypot(now.x - before.x, now.y - before.y)
      pointers.set(event.pointerId, now)
      if (moved >= CLICK_PX) act.pan(now.x - before.x, now.y - before.y)
    }
  }, options)
  const release = (event: PointerEvent): void => {
    const there = pointers.delete(event.pointerId)
    spread = middle().spread
    if (there && event.type === 'pointerup' && moved < CLICK_PX && pointers.size === 0) {
      const at = place(event)
      act.click(at.x, at.y)
    }
  }
  element.addEventListener('pointerup', release, options)
  element.addEventListener('pointercancel', release, options)
  element.addEventListener('pointerleave', () => act.leave(), options)
  element.addEventListener('dblclick', (event) => {
    const at = place(event)
    act.open(at.x, at.y)
  }, options)
  element.addEventListener('wheel', (event) => {
    event.preventDefault()
    const at = place(event)
    act.zoom(wheelFactor(event), at.x, at.y)
  }, { ...options, passive: false })
  return () => ended.abort()
}

/** Return the zoom of one turn of the wheel. Browsers tell it in pixels, lines or pages. */
export function wheelFactor(event: { deltaY: number; deltaMode: number; ctrlKey: boolean }): number {
  const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1
  // A pinch on a touch pad arrives as a wheel with the control key and small steps.
  const rate = event.ctrlKey ? 0.01 : 0.0015
  return Math.exp(-Math.max(-240, Math.min(240, event.deltaY * unit)) * rate)
}
