import { cut, visible } from '../format'
import { titleOf, viewOf } from '../views'

/** A heading may depend on data: for this long its focus is awaited. */
const PATIENCE_MS = 4000

/**
 * Move the focus to the heading of a view that was just opened, so that a screen reader says where it is and the next
 * Tab goes on from there. Until there is a heading the content has the focus. Return a function that gives up.
 */
export function focusHeading(main: HTMLElement): () => void {
  let heading: HTMLElement | null = null
  const take = (): void => {
    const found = main.querySelector('h1')
    heading = found
    const target = found ?? main
    target.tabIndex = -1
    target.focus({ preventScroll: true })
  }
  const stop = (): void => {
    observer.disconnect()
    clearTimeout(timer)
  }
  const observer = new MutationObserver(() => {
    const active = document.activeElement
    // The heading of a view that loads may be replaced by that of its data. Somebody who moved the focus keeps it.
    if (active === document.body || (active === main && main.querySelector('h1') !== null)) take()
    else if (active !== heading && active !== main) stop()
  })
  const timer = setTimeout(stop, PATIENCE_MS)
  take()
  observer.observe(main, { childList: true, subtree: true })
  return stop
}

/** Return the title of the document for a path. */
export function titleFor(path: readonly string[]): string {
  const [section = '', thing] = path
  if (section === '') return 'Freshline'
  const view = viewOf(path)
  if (view === null) return 'Not found · Freshline'
  if (thing === undefined) return `${titleOf(section)} · Freshline`
  // Names say enough by themselves; ids need their kind.
  const named = section === 'assets' || section === 'workflows'
  return named ? `${cut(visible(thing), 80)} · Freshline` : `${view.title} ${cut(visible(thing), 80)} · Freshline`
}
