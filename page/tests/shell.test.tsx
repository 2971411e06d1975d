import { render } from 'preact'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { followKeys } from '../src/keyboard'
import { helpOpen } from '../src/parts/help'
import { paletteOpen } from '../src/parts/palette'
import { best, score, type Entry } from '../src/parts/search'
import { CurrentView } from '../src/shell/current'
import { focusHeading, titleFor } from '../src/shell/focus'
import type { View } from '../src/views'

let root: HTMLElement
beforeEach(() => {
  root = document.createElement('main')
  root.tabIndex = -1
  document.body.append(root)
})
afterEach(() => {
  render(null, root)
  root.remove()
  location.hash = ''
  paletteOpen.value = false
  helpOpen.value = false
  vi.restoreAllMocks()
})
const soon = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20))
const entry = (label: string): Entry => ({ label, kind: 'asset', go: () => undefined })

test('names are found by their beginning, then by a word, then by a part, then by their letters', () => {
  const all = ['x.unorders', 'shop.orders', 'orders', 'orders.daily', 'o.r.d.e.r.s'].map(entry)
  expect(best(all, 'orders').map((one) => one.label)).toEqual(['orders', 'orders.daily', 'shop.orders', 'x.unorders', 'o.r.d.e.r.s'])
  expect(best(all, 'daily ord').map((one) => one.label)).toEqual(['orders.daily'])
  expect(best(all, '')).toHaveLength(5)
  expect(best(all, 'zzz')).toEqual([])
  expect(score('ORDERS', 'orders')).toBe(6)
  expect(best(Array.from({ length: 10_000 }, (_, n) => entry(`a${n}`)), 'a', 50)).toHaveLength(50)
})

test('keys go to pages, but not from a field and not behind a dialog', () => {
  const stop = followKeys()
  const press = (key: string, target: EventTarget = document.body): void => {
    target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }))
  }
  press('g')
  press('r')
  expect(location.hash).toBe('#/runs')
  press('r')
  press('?')
  expect(helpOpen.value).toBe(true)
  const field = document.createElement('input')
  root.append(field)
  press('/', field)
  expect(paletteOpen.value).toBe(false)
  const dialog = document.createElement('dialog')
  dialog.setAttribute('open', '')
  root.append(dialog)
  press('/')
  expect(paletteOpen.value).toBe(false)
  dialog.remove()
  press('/')
  expect(paletteOpen.value).toBe(true)
  stop()
})

test('an error in a view leaves the shell, and the view can be tried again', async () => {
  vi.spyOn(console, 'error').mockImplementation(() => undefined)
  let broken = true
  const Shown = () => {
    if (broken) throw new Error('<b>broken</b>')
    return <h1>works</h1>
  }
  const view: View = { section: 'x', title: 'X', load: async () => ({ default: Shown }) }
  render(<CurrentView view={view} />, root)
  await soon()
  expect(root.textContent).toContain('<b>broken</b>')
  broken = false
  root.querySelector('button')!.click()
  await soon()
  expect(root.textContent).toBe('works')
})

test('a view that cannot be loaded says so', async () => {
  render(<CurrentView view={{ section: 'x', title: 'X', load: () => Promise.reject(new Error('404')) }} />, root)
  await soon()
  expect(root.textContent).toContain('could not be loaded')
})

test('the focus goes to the heading, also if it comes later or is replaced, but is not taken from a field', async () => {
  const stop = focusHeading(root)
  expect(document.activeElement).toBe(root)
  root.innerHTML = '<h1>first</h1>'
  await soon()
  expect(document.activeElement?.textContent).toBe('first')
  root.innerHTML = '<h1>second</h1><input>'
  await soon()
  expect(document.activeElement?.textContent).toBe('second')
  root.querySelector('input')!.focus()
  root.append(document.createElement('p'))
  await soon()
  expect(document.activeElement?.tagName).toBe('INPUT')
  stop()
})

test('titles name what is shown', () => {
  expect(titleFor([])).toBe('Freshline')
  expect(titleFor(['runs'])).toBe('Runs · Freshline')
  expect(titleFor(['assets', 'a.b'])).toBe('a.b · Freshline')
  expect(titleFor(['runs', '0192'])).toBe('Run 0192 · Freshline')
  expect(titleFor(['nowhere'])).toBe('Not found · Freshline')
})
