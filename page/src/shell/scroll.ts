/** Where each entry of the browser's history was scrolled to. */
const places = new Map<number, number>()
/** Content that comes later may make the page long enough: for this long it is awaited. */
const PATIENCE_MS = 3000
let entries = 0

/**
 * Begin a new view at its top, and one that the reader comes back to where it was left. Return a function that stops
 * following the view.
 */
export function followScroll(main: HTMLElement): () => void {
  history.scrollRestoration = 'manual'
  const { entry, known } = current()
  const stopRestoring = restore(main, known ? places.get(entry) ?? 0 : 0)
  const remember = (): void => {
    places.set(entry, scrollY)
  }
  addEventListener('scroll', remember, { passive: true })
  return () => {
    removeEventListener('scroll', remember)
    stopRestoring()
  }
}

/** Return the number of the history's entry, and whether it had one already. */
function current(): { entry: number; known: boolean } {
  const state: unknown = history.state
  const found = typeof state === 'object' && state !== null && 'entry' in state ? state.entry : null
  // After a reload the numbers begin anew; positions of entries from before are not known.
  if (typeof found === 'number' && places.has(found)) return { entry: found, known: true }
  entries += 1
  places.set(entries, 0)
  history.replaceState({ entry: entries }, '')
  return { entry: entries, known: false }
}

/** Scroll to a position as soon as the content reaches it, unless the reader scrolls first. */
function restore(main: HTMLElement, to: number): () => void {
  scrollTo(0, to)
  if (to === 0 || scrollY >= to - 1) return () => undefined
  const observer = new ResizeObserver(() => {
    scrollTo(0, to)
    if (scrollY >= to - 1) stop()
  })
  const stop = (): void => {
    observer.disconnect()
    clearTimeout(timer)
    removeEventListener('wheel', stop)
    removeEventListener('pointerdown', stop)
    removeEventListener('keydown', stop)
  }
  const timer = setTimeout(stop, PATIENCE_MS)
  for (const type of ['wheel', 'pointerdown', 'keydown'] as const) addEventListener(type, stop, { passive: true })
  observer.observe(main)
  return stop
}
