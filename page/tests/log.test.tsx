import { render } from 'preact'
import { act } from 'preact/test-utils'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { append, BLOCK, blocks, chosen, jump, matching, MOST_LINES, NO_LINES, pieces, prepend, step } from '../src/parts/log-window'
import { Log } from '../src/parts/log'
import { parse, route } from '../src/router'
import type { LogLine } from '../src/types'

const line = (number: number, text = `line ${number}`, more: Partial<LogLine> = {}): LogLine =>
  ({ line: number, at: '2026-01-05T09:00:00Z', attempt: 1, stepId: 'work', stream: 'stdout', text, ...more })
const lines = (from: number, to: number): LogLine[] => Array.from({ length: to - from + 1 }, (_, index) => line(from + index))
const numbers = (of: readonly LogLine[]): number[] => of.map((one) => one.line)

describe('the window of a log', () => {
  it('adds newer lines once, and keeps the newest when there are too many', () => {
    const window = append({ ...NO_LINES, start: true, end: true }, lines(1, 4), 5)
    expect(window.start).toBe(true)
    const more = append(window, lines(3, 7), 5)
    expect(numbers(more.lines)).toEqual([3, 4, 5, 6, 7])
    expect(more.start).toBe(false)
    expect(append(more, lines(6, 7), 5)).toBe(more)
  })

  it('adds earlier lines, and lets the newest go when there are too many', () => {
    const window = { lines: lines(5, 8), start: false, end: true }
    const more = prepend(window, lines(2, 5), 6)
    expect(numbers(more.lines)).toEqual([2, 3, 4, 5, 6, 7])
    expect([more.start, more.end]).toEqual([false, false])
    expect(prepend(window, lines(1, 4)).start).toBe(true)
  })

  it('finds the start where retention has removed the first lines', () => {
    expect(prepend({ lines: lines(5, 8), start: false, end: true }, []).start).toBe(true)
  })

  it('goes on with the last lines without a gap, and starts anew after one', () => {
    const window = { lines: lines(1, 10), start: true, end: true }
    expect(numbers(jump(window, lines(11, 12)).lines)).toEqual(numbers(lines(1, 12)))
    const far = jump(window, lines(100, 101))
    expect(numbers(far.lines)).toEqual([100, 101])
    expect([far.start, far.end]).toEqual([false, true])
  })

  it('never holds more than its limit', () => {
    let window = NO_LINES
    for (let from = 1; from < 40_000; from += 1000) window = append(window, lines(from, from + 999))
    expect(window.lines).toHaveLength(MOST_LINES)
    expect(window.lines.at(-1)?.line).toBe(40_000)
  })
})

describe('blocks of rows', () => {
  it('are the same objects when nothing in them changed, so that they are not drawn again', () => {
    const first = blocks(lines(1, 250), [])
    const second = blocks(lines(1, 260), first)
    expect(first.map((one) => one.lines.length)).toEqual([BLOCK - 1, BLOCK, 51])
    expect(second.slice(0, 2)).toEqual(first.slice(0, 2))
    expect(second[0]).toBe(first[0])
    expect(second[2]).not.toBe(first[2])
  })

  it('are others when a filter leaves lines out', () => {
    const first = blocks(lines(1, 99), [])
    expect(blocks(lines(1, 99).filter((one) => one.line % 2 === 1), first)[0]).not.toBe(first[0])
  })
})

describe('search', () => {
  it('finds what is shown, without colours of terminals and whatever the case', () => {
    const of = [line(1, 'an \u001b[31mERROR\u001b[0m here'), line(2, 'fine'), line(3, 'error again')]
    expect(matching(of, 'error here')).toEqual([1])
    expect(matching(of, 'Error')).toEqual([1, 3])
    expect(matching(of, '')).toEqual([])
  })

  it('goes around the ends', () => {
    expect(step([3, 7, 9], null, 1)).toBe(3)
    expect(step([3, 7, 9], null, -1)).toBe(9)
    expect(step([3, 7, 9], 9, 1)).toBe(3)
    expect(step([3, 7, 9], 3, -1)).toBe(9)
    expect(step([3, 7, 9], 4, 1)).toBe(3)
    expect(step([], 4, 1)).toBeNull()
  })

  it('marks every match, and nothing where lower case is longer', () => {
    expect(pieces('aXbxc', 'x')).toEqual(['a', 'X', 'b', 'x', 'c'])
    expect(pieces('abc', '')).toEqual(['abc'])
    expect(pieces('\u0130x', 'x')).toEqual(['\u0130x'])
  })

  it('is within the chosen step and stream', () => {
    const of = [line(1), line(2, 'x', { stream: 'stderr' }), line(3, 'x', { stepId: 'other', stream: 'stderr' })]
    expect(numbers(chosen(of, { step: 'work', stream: 'stderr' }))).toEqual([2])
    expect(chosen(of, { step: '', stream: '' })).toBe(of)
  })
})

describe('the log', () => {
  let stored: LogLine[] = []
  const asked: string[] = []
  let box: HTMLElement

  beforeEach(() => {
    asked.length = 0
    box = document.createElement('div')
    document.body.append(box)
    vi.useFakeTimers()
    vi.stubGlobal('fetch', async (address: string) => {
      const url = new URL(address)
      asked.push(url.search)
      const after = Number(url.searchParams.get('after') ?? -1)
      const tail = url.searchParams.get('tail')
      const limit = Number(url.searchParams.get('limit') ?? 1000)
      const items = tail === null ? stored.filter((one) => one.line > after).slice(0, limit) : stored.slice(-Number(tail))
      return new Response(JSON.stringify({ items, next: null }))
    })
  })
  afterEach(() => {
    act(() => render(null, box))
    box.remove()
    vi.useRealTimers()
    vi.unstubAllGlobals()
  })
  const show = async (active: boolean, hash = '#/runs/r'): Promise<void> => {
    route.value = parse(hash)
    await act(async () => {
      render(<Log runId="r" active={active} />, box)
    })
    // The first piece is read, then drawn.
    for (let turn = 0; turn < 2; turn += 1) {
      await act(async () => {
        await vi.advanceTimersByTimeAsync(50)
      })
    }
  }
  const shown = (): string[] => [...box.querySelectorAll('.log-text')].map((one) => one.textContent ?? '')

  it('shows what users print as text, with control characters visible', async () => {
    stored = [line(1, '<img src=x onerror=alert(1)> \u202eevil\u0007')]
    await show(false)
    expect(shown()).toEqual(['<img src=x onerror=alert(1)> \ufffdevil\u2407'])
    expect(box.querySelector('img')).toBeNull()
  })

  it('reads only what is new while the run is active', async () => {
    stored = lines(1, 3)
    await show(true)
    stored = lines(1, 5)
    await act(async () => {
      await vi.advanceTimersByTimeAsync(1100)
    })
    expect(shown()).toHaveLength(5)
    expect(asked).toEqual(['?tail=1000', '?after=3&limit=1000'])
  })

  it('opens around the line that the address names', async () => {
    stored = lines(1, 2010)
    await show(false, '#/runs/r?line=2000')
    expect(asked).toEqual(['?after=1800&limit=1000'])
    expect(box.querySelector('.log-line.current')?.getAttribute('data-line')).toBe('2000')
    expect([...box.querySelectorAll('.log-more')].map((one) => one.textContent)).toEqual(['Load earlier lines'])
  })
})
