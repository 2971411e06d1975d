import { afterEach, expect, test } from 'vitest'
import { go, href, parse, place, route, setQuery, start } from '../src/router'
import { LETTERS, MAIN, MORE, viewOf } from '../src/views'

afterEach(() => {
  location.hash = ''
  route.value = parse('')
})

const ODD = ['a.b', 'with space', 'a/b', '50%', '%2F', '?x=1', 'a&b=c', '#hash', 'ünï/çødé', '+', '..', '<b>', '\u202egpj', '😀', 'a;b', '=', "it's"]

test.each(ODD)('a name survives the address: %j', (name) => {
  const parsed = parse(href(['assets', name], { tab: name, [name]: 'x' }))
  expect(parsed.path).toEqual(['assets', name])
  expect(parsed.query).toEqual({ tab: name, [name]: 'x' })
})

test('values that say nothing are left out of the address', () => {
  expect(href(['runs'], { a: '', b: null, c: undefined, d: false, e: 0, f: true })).toBe('#/runs?e=0&f=true')
  expect(href([])).toBe('#/')
})

test('an address that cannot be decoded is kept as it is', () => {
  expect(parse('#/assets/%E0%A4%A').path).toEqual(['assets', '%E0%A4%A'])
  expect(parse('#//assets//x/').path).toEqual(['assets', 'x'])
  expect(parse('')).toEqual({ path: [], query: {} })
})

test('a filter replaces the entry of the history, a new view adds one', async () => {
  const stop = start()
  go(['runs'], { status: 'failed' })
  await new Promise((resolve) => setTimeout(resolve))
  const before = place.value
  const entries = history.length
  setQuery({ since: '24h', status: null })
  expect(history.length).toBe(entries)
  expect(route.value).toEqual({ path: ['runs'], query: { since: '24h' } })
  expect(location.hash).toBe('#/runs?since=24h')
  // Only another path is another view.
  expect(place.value).toBe(before)
  stop()
})

test('every page of the navigation and every letter has a view', () => {
  for (const section of [...MAIN, ...MORE, ...Object.values(LETTERS)]) {
    expect(viewOf(section === '' ? [] : [section])?.section, section).toBe(section)
  }
  expect(viewOf(['assets', 'x'])?.title).toBe('Asset')
  for (const path of [['nowhere'], ['assets', 'x', 'y'], ['constructor'], ['graph', 'x'], ['__proto__', 'x']]) {
    expect(viewOf(path), path.join('/')).toBeNull()
  }
})
