import { helpOpen } from './parts/help'
import { paletteOpen } from './parts/palette'
import { go } from './router'
import { LETTERS } from './views'

/** After `g`, a letter within this time goes to a page. */
const PREFIX_MS = 1500

/** Follow the keys of the whole page. Return a function that stops it. */
export function followKeys(): () => void {
  let prefixed = 0
  const follow = (event: KeyboardEvent): void => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return
    if (document.querySelector('dialog[open]') !== null) return
    const target = Date.now() - prefixed < PREFIX_MS ? LETTERS[event.key] : undefined
    prefixed = 0
    if (target !== undefined) go(target === '' ? [] : [target])
    else if (event.key === '/') paletteOpen.value = true
    else if (event.key === '?') helpOpen.value = true
    else if (event.key === 'g') {
      prefixed = Date.now()
      return
    } else return
    event.preventDefault()
  }
  addEventListener('keydown', follow)
  return () => removeEventListener('keydown', follow)
}

/** Whether keys belong to a field. */
export function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false
  return target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName)
}
