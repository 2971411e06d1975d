import { render } from 'preact'
import { act } from 'preact/test-utils'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { bytes } from '../src/format'
import { Chart } from '../src/parts/chart'
import { clocks, drawable, heightOf, intervalAt, lastKnown, reading, ROWS, size, spanOf, summary, TIME, type Series } from '../src/parts/chart-figures'
import type { Figures, Setup } from '../src/parts/chart-plot'
import { dark } from '../src/theme'
import { chartsOf, type Moment } from '../src/views/asset/timeline'
import { timesOf } from '../src/views/workflow/times'
import type { Run } from '../src/types'

const line = (...values: (number | null)[]): Series => ({ name: ['version', 'versions'], kind: 'line', values })
const crosses = (...values: (number | null)[]): Series => ({ name: ['failed', 'failed'], kind: 'crosses', values })
const minute = (n: number): number => Date.UTC(2026, 0, 5, 9, n)

describe('what a chart says without its picture', () => {
  it('is the least, the most and the last', () => {
    expect(summary('Rows', [line(5, null, 1, 3)], ROWS)).toBe('Rows: 3 versions, at least 1 row, at most 5 rows, last 3 rows')
    expect(summary('Run time', [line(60_000, null), crosses(null, 4000)], TIME)).toBe('Run time: 1 version, 1m; 1 failed, 4s')
  })

  it('is short where all values are equal, and says that there are none', () => {
    expect(summary('Rows', [line(3, 3)], ROWS)).toBe('Rows: 2 versions, all 3 rows')
    expect(summary('Rows', [line(null)], ROWS)).toBe('Rows: no values')
  })

  it('is the value at a time, with what went wrong', () => {
    const series = [line(1000, null), crosses(null, 2000)]
    expect([0, 1, 2].map((index) => reading(series, TIME, index))).toEqual(['1s', '2s, failed', ''])
    expect(lastKnown(series)).toBe(1)
    expect(lastKnown([line(1, null)])).toBe(0)
    expect(lastKnown([line()])).toBe(-1)
  })
})

describe('the ranges of a chart', () => {
  it('begin at zero, and have a height when all values are zero or none is known', () => {
    expect(heightOf([line(0, 0)])).toEqual([0, 1])
    expect(heightOf([line(null)])).toEqual([0, 1])
    expect(heightOf([line(10, null), crosses(null, 100)])[1]).toBeCloseTo(115)
  })

  it('end where the last interval ends; each time belongs to one', () => {
    expect(spanOf([minute(1), minute(3)], minute(5))).toEqual([minute(1), minute(5)])
    expect([0, 1, 2.9, 3, 5].map((at) => intervalAt([minute(1), minute(3)], minute(at)))).toEqual([0, 0, 0, 1, 1])
  })

  it('put one time in the middle', () => {
    const [from, to] = spanOf([minute(5)])
    expect((from + to) / 2).toBe(minute(5))
    expect(spanOf([minute(1), minute(9)])).toEqual([minute(1), minute(9)])
  })

  it('have ticks of whole rows, of powers of two, and of units of time', () => {
    expect(ROWS.steps.every(Number.isInteger)).toBe(true)
    expect(ROWS.tick(1_500_000)).toBe('1.5M')
    expect(size(bytes).steps.slice(9, 12)).toEqual([512, 1024, 2048])
    expect(TIME.steps).toEqual([...TIME.steps].sort((a, b) => a - b))
    expect([0, 90_000].map(TIME.tick)).toEqual(['0', '1m 30s'])
  })

  it('name the day once, and only days where they are far apart', () => {
    const hours = [22, 23, 24, 25].map((hour) => new Date(2026, 0, 5, hour).getTime())
    expect(clocks(hours, 3_600_000)).toEqual(['5 Jan 22:00', '23:00', '6 Jan 00:00', '01:00'])
    expect(clocks(hours.slice(0, 1), 1000)).toEqual(['5 Jan 22:00:00'])
    expect(clocks([new Date(2026, 0, 5).getTime()], 86_400_000)).toEqual(['5 Jan'])
  })
})

describe('the figures of an asset', () => {
  const moment = (more: Partial<Moment>): Moment => ({
    id: 'x', kind: 'changed', at: '2026-01-05T09:00:00Z', text: '', rows: null, bytes: null, took: null, version: null, ...more,
  })

  it('are in the order of time, with failures only in the run time', () => {
    const charts = chartsOf([
      moment({ at: '2026-01-05T10:00:00Z', rows: 5, took: 2000 }),
      moment({ at: '2026-01-05T09:30:00Z', kind: 'failed', took: 7000 }),
      moment({ at: '2026-01-05T09:00:00Z', rows: 3, took: 1000 }),
    ])
    expect(charts.map((one) => one.label)).toEqual(['Rows', 'Run time'])
    expect(charts[0]!.series[0]!.values).toEqual([3, null, 5])
    expect(charts[1]!.series.map((one) => one.values)).toEqual([[1000, null, 2000], [null, 7000, null]])
  })

  it('are left out where nothing is known, as for a source', () => {
    expect(chartsOf([moment({}), moment({})])).toEqual([])
  })
})

it('shows how long runs took that ended by themselves', () => {
  const run = (status: string, startedAt: string | null, finishedAt: string | null): Run => ({ status, startedAt, finishedAt }) as Run
  const at = (n: number): string => new Date(minute(n)).toISOString()
  const { times, series } = timesOf([
    run('running', at(9), null), run('failed', at(5), at(6)), run('succeeded', at(1), at(3)), run('canceled', at(1), at(2)), run('canceled', null, at(2)),
  ])
  expect(times).toEqual([minute(3), minute(6)])
  expect(series.map((one) => one.values)).toEqual([[120_000, null], [null, 60_000]])
})

describe('a chart', () => {
  const made: { first: Figures; setup: Setup; calls: string[] }[] = []
  let box: HTMLElement
  let watched: (() => void)[] = []

  beforeEach(() => {
    made.length = 0
    watched = []
    vi.doMock('../src/parts/chart-plot', () => ({
      plot: (_target: HTMLElement, first: Figures, setup: Setup) => {
        const calls: string[] = []
        made.push({ first, setup, calls })
        return {
          put: (figures: Figures) => calls.push(`put ${figures.series[0]!.values.join()}`), resize: (width: number) => calls.push(`resize ${width}`),
          paint: () => calls.push('paint'), remove: () => calls.push('remove'),
        }
      },
    }))
    vi.stubGlobal('ResizeObserver', class {
      constructor(changed: () => void) {
        watched.push(changed)
      }
      observe(): void {}
      disconnect(): void {}
    })
    vi.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockReturnValue(600)
    box = document.createElement('div')
    document.body.append(box)
  })
  afterEach(() => {
    act(() => render(null, box))
    box.remove()
    vi.doUnmock('../src/parts/chart-plot')
    vi.unstubAllGlobals()
    vi.restoreAllMocks()
  })
  const show = async (values: (number | null)[]): Promise<void> => {
    await act(async () => render(<Chart label="Rows" times={values.map((_, index) => minute(index))} series={[line(...values)]} unit={ROWS} />, box))
    await vi.waitFor(() => expect(made.length).toBe(drawable([line(...values)]) ? 1 : 0))
  }
  const head = (): string => box.querySelector('.chart-value')?.textContent ?? ''

  it('draws nothing where nothing is known', async () => {
    await show([null, null])
    expect(box.innerHTML).toBe('')
    await show([])
    expect(box.innerHTML).toBe('')
  })

  it('has its values as text, and the one under the cursor above it', async () => {
    await show([4, 5, null])
    expect(box.querySelector('[role=img]')?.getAttribute('aria-label')).toBe('Rows: 2 versions, at least 4 rows, at most 5 rows, last 5 rows')
    expect(head()).toBe('5 rows')
    act(() => made[0]!.setup.onPoint(0))
    expect(head()).toBe('4 rows')
    act(() => made[0]!.setup.onPoint(2))
    expect(head()).toBe('5 rows')
    act(() => made[0]!.setup.onPoint(null))
    expect(head()).toBe('5 rows')
  })

  it('takes new values, another width and another theme without being made again', async () => {
    await show([1])
    expect(made[0]!.setup.width).toBe(600)
    await show([1, 2])
    vi.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockReturnValue(300)
    act(() => watched.forEach((changed) => changed()))
    act(() => {
      dark.value = !dark.value
    })
    expect(made[0]!.calls).toEqual(['put 1,2', 'resize 300', 'paint'])
    act(() => render(null, box))
    expect(made[0]!.calls.at(-1)).toBe('remove')
  })
})
