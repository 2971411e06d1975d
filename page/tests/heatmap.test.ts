import { describe, expect, it } from 'vitest'
import { layoutOf } from '../src/parts/heatmap-layout'
import { cellsOf, countsText, countStates, type StateRange } from '../src/parts/partition-cells'
import { joined } from '../src/parts/partition-data'
import { keyAt, ordinal, type Grain } from '../src/parts/partition-keys'

const range = (state: string, from: string, to: string, count: number): StateRange => ({ state, from, to, count })

describe('keys of time', () => {
  it.each<[Grain, string, string]>([
    ['minute', '2024-02-28T23:59', '2024-02-29T00:00'],
    ['hour', '2024-12-31T23', '2025-01-01T00'],
    ['day', '2024-02-28', '2024-02-29'],
    ['day', '1969-12-31', '1970-01-01'],
    ['day', '0099-12-31', '0100-01-01'],
    // 2020 has 53 weeks; the Monday of 2025-W01 is in 2024.
    ['week', '2020-W53', '2021-W01'],
    ['week', '2024-W52', '2025-W01'],
    ['month', '2024-12', '2025-01'],
    ['year', '2024', '2025'],
  ])('of a %s: %s is followed by %s', (grain, before, after) => {
    expect(ordinal(after, grain)).toBe(ordinal(before, grain) + 1)
    expect(keyAt(ordinal(before, grain) + 1, grain)).toBe(after)
    expect(keyAt(ordinal(before, grain), grain)).toBe(before)
  })

  it('names ten thousand weeks and gives them back', () => {
    const first = ordinal('1900-W01', 'week')
    for (let at = first; at < first + 10_000; at += 1) expect(ordinal(keyAt(at, 'week'), 'week')).toBe(at)
  })
})

describe('cells', () => {
  const days = [range('missing', '2024-03-02', '2024-03-02', 1), range('fresh', '2024-02-28', '2024-03-01', 3), range('failed', '2024-02-27', '2024-02-27', 1)]

  it('expands ranges of days, the oldest first', () => {
    const cells = cellsOf(days)
    expect(cells.total).toBe(5)
    expect(Array.from({ length: 5 }, (_, index) => `${cells.keyOf(index)} ${cells.stateOf(index)}`)).toEqual([
      '2024-02-27 failed', '2024-02-28 fresh', '2024-02-29 fresh', '2024-03-01 fresh', '2024-03-02 missing',
    ])
    expect(cells.indexOf('2024-02-29')).toBe(2)
    expect(cells.indexOf('2024-03-03')).toBe(-1)
    expect(cells.indexOf('2024-03')).toBe(-1)
  })

  it('knows the place of a key after a gap', () => {
    const cells = cellsOf([range('failed', '2024-03-10', '2024-03-11', 2), range('failed', '2024-03-01', '2024-03-01', 1)])
    expect(cells.keyOf(1)).toBe('2024-03-10')
    expect(cells.indexOf('2024-03-05')).toBe(-1)
    expect(cells.indexOf('2024-03-11')).toBe(2)
  })

  it.each([
    ['day', 'UTC', [['2024-01-05T00:00:00Z', '2024-01-06T00:00:00Z'], ['2024-03-30T00:00:00Z', '2024-04-02T00:00:00Z']]],
    // In Berlin the clocks change on 2024-03-31: that day has 23 hours.
    ['day', 'Berlin', [['2024-01-04T23:00:00Z', '2024-01-05T23:00:00Z'], ['2024-03-29T23:00:00Z', '2024-04-01T22:00:00Z']]],
    ['day', 'Honolulu', [['2024-01-05T10:00:00Z', '2024-01-06T10:00:00Z'], ['2024-03-30T10:00:00Z', '2024-04-02T10:00:00Z']]],
  ])('names each %s of a selection with gaps (%s)', (_, __, times) => {
    const cells = cellsOf([range('rest', '2024-01-05', '2024-04-01', 4)], { selection: { times } })
    expect([0, 1, 2, 3].map(cells.keyOf)).toEqual(['2024-01-05', '2024-03-30', '2024-03-31', '2024-04-01'])
    expect(cells.indexOf('2024-03-31')).toBe(2)
    expect(cells.indexOf('2024-02-01')).toBe(-1)
  })

  it('names the hours of a selection with gaps', () => {
    const times = [['2024-01-05T05:00:00Z', '2024-01-05T06:00:00Z'], ['2024-01-05T08:00:00Z', '2024-01-05T10:00:00Z']]
    const cells = cellsOf([range('rest', '2024-01-05T05', '2024-01-05T09', 3)], { selection: { times } })
    expect([0, 1, 2].map(cells.keyOf)).toEqual(['2024-01-05T05', '2024-01-05T08', '2024-01-05T09'])
  })

  it('does not take keys for times because they look like them', () => {
    const keys = { keys: ['2024', '1999', '2001'] }
    const cells = cellsOf([range('fresh', '2001', '2024', 3)], { partitioning: keys })
    expect(cells.grain).toBeNull()
    expect([0, 1, 2].map(cells.keyOf)).toEqual(['2024', '1999', '2001'])
    // Without the definition: as many as lie between the ends, or no time.
    expect(cellsOf([range('fresh', '2001', '2024', 3)]).grain).toBeNull()
  })

  it('names the keys of dimensions, the newest time first', () => {
    const declared = { dimensions: { region: { keys: ['eu', 'us'] }, day: { time: 'day', start: '2024-01-01' } } }
    const cells = cellsOf([range('fresh', 'eu|2024-01-02', 'eu|2024-01-02', 1), range('missing', 'us|2024-01-01', 'us|2024-01-02', 3)], { partitioning: declared })
    expect([0, 1, 2, 3].map(cells.keyOf)).toEqual(['eu|2024-01-02', 'us|2024-01-02', 'eu|2024-01-01', 'us|2024-01-01'])
  })

  it('says nothing about keys that it cannot know', () => {
    const cells = cellsOf([range('fresh', 'c', 'a', 3)], { partitioning: { dynamic: { limit: 9 } } })
    expect([0, 1, 2].map(cells.keyOf)).toEqual(['a', null, 'c'])
    expect(cells.indexOf('c')).toBe(2)
  })

  it('counts the states of a selection', () => {
    const cells = cellsOf(days)
    expect(countStates(cells, 0, 2)).toEqual({ failed: 1, fresh: 2 })
    expect(countsText(countStates(cells), cells.total)).toBe('3 of 5 fresh, 1 failed, 1 missing')
  })

  it('joins a range that the end of a page has cut', () => {
    const pages = joined([range('fresh', '2024-03-02', '2024-03-03', 2)] as never, [range('fresh', '2024-02-28', '2024-03-01', 3)] as never)
    expect(pages).toEqual([range('fresh', '2024-02-28', '2024-03-03', 5)])
  })
})

describe('layout', () => {
  it('puts each cell where the pointer finds it', () => {
    for (const listed of [
      [range('fresh', '2024-01-01', '2024-12-31', 366)],
      [range('fresh', '2024-01-01T00', '2025-02-19T15', 10_000)],
      [range('fresh', '1900-01', '2024-12', 1500)],
      [range('fresh', 'z', 'a', 12_345)],
    ]) {
      const cells = cellsOf(listed)
      expect(cells.total).toBe(listed[0]!.count)
      for (const width of [340, 1180]) {
        const layout = layoutOf(cells, width)
        for (let index = 0; index < cells.total; index += 7) {
          const { x, y } = layout.cell(index)
          expect(layout.at(x + layout.size / 2, y + layout.size / 2)).toBe(index)
          expect(x + layout.size).toBeLessThanOrEqual(width)
          expect(y + layout.size).toBeLessThanOrEqual(layout.height)
        }
      }
    }
  })

  it('makes a column of a week: the days from Monday to Sunday', () => {
    const layout = layoutOf(cellsOf([range('fresh', '2024-01-01', '2024-01-14', 14)]), 1000)
    const [monday, sunday, next] = [0, 6, 7].map(layout.cell)
    expect(monday!.x).toBe(sunday!.x)
    expect(next!.x).toBe(monday!.x + layout.pitch)
    expect(next!.y).toBe(monday!.y)
  })

  it('fits 10,000 cells into the height of a screen', () => {
    expect(layoutOf(cellsOf([range('fresh', '2024-01-01T00', '2025-02-19T15', 10_000)]), 1180).height).toBeLessThanOrEqual(480)
    expect(layoutOf(cellsOf([range('fresh', 'z', 'a', 10_000)]), 340).height).toBeLessThanOrEqual(480)
  })
})
