import { describe, expect, it } from 'vitest'
import {
  chosen, grouped, groupOf, lateness, matcher, summary, toRows, visibleRange, type Detail,
} from '../src/views/assets/rows'
import { difference } from '../src/views/assets/still'

const NOW = Date.parse('2026-01-05T12:00:00Z')
const HOUR = 3_600_000

const known = (more: Partial<Detail> = {}): Detail => ({
  workflowSlug: 'w', upstreamFailing: false, needsDecision: null, producedAt: '2026-01-05T10:00:00Z', expiresAt: null, hold: null,
  nextRefreshAt: null, partitions: null, lastRun: null, maxAgeMs: null, automatic: true, ...more,
})

const rows = (states: Record<string, string>, details: Record<string, Detail> = {}) =>
  toRows(states, new Map(Object.entries(details)), NOW)

describe('names', () => {
  it('finds a text anywhere, in any case', () => {
    expect(['Sales.daily', 'shop.sales', 'geo'].filter(matcher('sales'))).toEqual(['Sales.daily', 'shop.sales'])
  })

  it('matches a pattern with the whole name, as the command does', () => {
    const names = ['sales.a', 'sales.ab', 'my.sales.a', 'salesXa']
    expect(names.filter(matcher('sales.?'))).toEqual(['sales.a'])
    expect(names.filter(matcher('sales.*'))).toEqual(['sales.a', 'sales.ab'])
    expect(names.filter(matcher('[!s]*'))).toEqual(['my.sales.a'])
  })

  it('takes every other character literally, also in a broken pattern', () => {
    expect(matcher('a+(b|*')('a+(b|c')).toBe(true)
    expect(matcher('[*')('[x')).toBe(true)
    expect(matcher('[z-a]*')('b')).toBe(false)
  })
})

describe('the list', () => {
  const details = { c: known({ maxAgeMs: HOUR }), b: known({ maxAgeMs: 3 * HOUR }) }
  const all = rows({ c: 'fresh', a: 'source', d: 'failing', b: 'stale', e: 'retired' }, details)

  it('is in the order of names, and leaves out retired assets unless they are wanted', () => {
    expect(chosen(all, {}).map((row) => row.id)).toEqual(['a', 'b', 'c', 'd'])
    expect(chosen(all, { state: 'retired' }).map((row) => row.id)).toEqual(['e'])
  })

  it('counts a fresh asset that breaks its promise as overdue', () => {
    expect(lateness(details.c, NOW)).toBe(HOUR)
    expect(lateness(details.b, NOW)).toBe(null)
    expect(chosen(all, { state: 'overdue' }).map((row) => row.id)).toEqual(['c'])
    expect(chosen(all, { state: 'attention' }).map((row) => row.id)).toEqual(['b', 'c', 'd'])
    expect(chosen(all, { order: 'attention' }).map((row) => row.id)).toEqual(['d', 'c', 'b', 'a'])
  })

  it('says how much is fresh of what is made here', () => {
    expect(summary(all)).toBe('1 of 3 fresh; 1 failing and 1 stale; 1 overdue; 1 source')
  })

  it('says what differs from the order that is shown, and only then', () => {
    expect(difference(['a', 'b'], ['a', 'b'])).toBe(null)
    expect(difference(['a', 'b'], ['b', 'a'])).toEqual({ joined: 0, left: 0 })
    expect(difference(['a', 'b'], ['b', 'c', 'd'])).toEqual({ joined: 2, left: 1 })
  })

  it('groups by prefix; a closed group keeps its numbers', () => {
    expect([groupOf('shop.totals.daily', 1), groupOf('shop.totals.daily', 2), groupOf('orders', 2), groupOf('a.b', 2)])
      .toEqual(['shop', 'shop.totals', '', 'a'])
    const entries = grouped(rows({ 'b.x': 'fresh', 'a.x': 'stale', 'a.y': 'fresh' }), 1, new Set(['a']))
    expect(entries.map((one) => (one.kind === 'group' ? `${one.name} ${one.total}` : one.row.id))).toEqual(['a 2', 'b 1', 'b.x'])
  })
})

describe('the window', () => {
  const tops = Array.from({ length: 10_001 }, (_, index) => index * 37)

  it('holds what is on the screen and a few rows around it', () => {
    expect(visibleRange(tops, 0, 700, 10)).toEqual([0, 29])
    expect(visibleRange(tops, 37 * 5000, 37 * 5000 + 700, 10)).toEqual([4990, 5029])
    expect(visibleRange(tops, 37 * 9999, 37 * 9999 + 700, 10)).toEqual([9989, 10_000])
  })

  it('is empty for an empty list, and never beyond the end', () => {
    expect(visibleRange([0], 0, 700, 10)).toEqual([0, 0])
    expect(visibleRange([0, 37], 500, 900, 10)).toEqual([0, 1])
  })
})
