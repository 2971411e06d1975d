import { describe, expect, it, vi } from 'vitest'
import { readAddress, viewQuery } from '../src/views/graph/address'
import { arrange, slotAt, slotsIn, CELL, type Grouping } from '../src/views/graph/arrange'
import { Camera } from '../src/views/graph/camera'
import { LiveStates } from '../src/views/graph/live'
import { codeOf, GraphModel, stateOf, type AssetStates, type GraphLayout } from '../src/views/graph/model'
import { shortened } from '../src/views/graph/scene'
import { glob, select } from '../src/views/graph/selection'
import { choose, waiting } from '../src/views/graph/shown'
import { step } from '../src/views/graph/walk'
import type { FreshlineEvent } from '../src/types'

/** a -> b -> c -> d, and s -> c; `s` and `a` are sources, and a change of `s` does not trigger. */
const LAYOUT: GraphLayout = {
  epoch: 1, layers: 4, groups: ['', 'sales'],
  nodes: [
    ['a', 0, 0, 'source', null, 0], ['sales.b', 1, 0, 'asset', 'make-b', 1], ['sales.c', 2, 0, 'asset', 'make-c', 1],
    ['d', 3, 0, 'asset', 'make-d', 0], ['s', 0, 1, 'source', null, 0],
  ],
  edges: [[0, 1, 1], [1, 2, 1], [2, 3, 1], [4, 2, 0]],
}

const model = (): GraphModel => new GraphModel(LAYOUT)
const states = (...names: string[]): Uint8Array => Uint8Array.from(names, codeOf)
const SOME = states('source', 'stale', 'fresh', 'fresh', 'source')
const chosen = (mask: Uint8Array): string => LAYOUT.nodes.filter((_, at) => mask[at] === 1).map((one) => one[0]).join(' ')
const selected = (text: string): string => chosen(select(model(), SOME, text).mask)

/** A graph of `count` assets in one layer after the other. */
function wide(count: number, layers: number): GraphModel {
  return new GraphModel({
    epoch: 1, layers, groups: ['x', 'y', 'z'], edges: [],
    nodes: Array.from({ length: count }, (_, at) =>
      [`n${at}`, at % layers, Math.floor(at / layers), 'asset', `w${at}`, at % 3] as GraphLayout['nodes'][number]),
  })
}

describe('the words of a selection', () => {
  it('takes names, workflows, patterns, directions and states, joined by "and"', () => {
    expect(selected('')).toBe('a sales.b sales.c d s')
    expect(selected('sales.*')).toBe('sales.b sales.c')
    expect(selected('make-c')).toBe('sales.c')
    expect(selected('sales')).toBe('sales.b sales.c')
    expect(selected('+sales.c')).toBe('a sales.b sales.c s')
    expect(selected('sales.c+')).toBe('sales.c d')
    expect(selected('+sales.b+')).toBe('a sales.b sales.c d')
    expect(selected('+sales.c state:source')).toBe('a s')
    expect(selected('state:stale,source')).toBe('a sales.b s')
    expect(selected('group:sales')).toBe('sales.b sales.c')
    expect(selected('group:')).toBe('a d s')
  })

  it('names the words that nothing matches', () => {
    expect(select(model(), SOME, 'nowhere').unknown).toEqual(['nowhere'])
    expect(select(model(), SOME, 'state:stael').unknown).toEqual(['state:stael'])
    // A state that no asset is in now is not a mistake.
    expect(select(model(), SOME, 'state:failing').unknown).toEqual([])
  })

  it('reads patterns as the commands do', () => {
    const yes = (pattern: string, name: string): boolean => glob(pattern)(name)
    expect(yes('*.daily', 'sales.daily')).toBe(true)
    expect(yes('s?les.*', 'sales.daily')).toBe(true)
    expect(yes('l[0-3]', 'l2')).toBe(true)
    expect(yes('l[!0-3]', 'l2')).toBe(false)
    expect(yes('l[]]', 'l]')).toBe(true)
    expect(yes('l[', 'l[')).toBe(true)
    expect(yes('Sales.*', 'sales.daily')).toBe(false)
    expect(yes('a*b*c', 'aXbXbc')).toBe(true)
    // A regular expression would take years.
    expect(yes(`${'*a'.repeat(30)}*b`, 'a'.repeat(200))).toBe(false)
  })
})

describe('what is shown', () => {
  const wish = { mode: 'attention', search: '', focus: -1, steps: 2 } as const

  it('begins with what is not fresh and what it is made from', () => {
    expect(chosen(choose(model(), states('source', 'fresh', 'failing', 'fresh', 'source'), wish).mask)).toBe('a sales.b sales.c s')
  })

  it('shows everything when everything is fresh, without what is retired', () => {
    const found = choose(model(), states('source', 'fresh', 'fresh', 'retired', 'source'), wish)
    expect(found.allFresh).toBe(true)
    expect(chosen(found.mask)).toBe('a sales.b sales.c s')
  })

  it('shows a neighbourhood of some steps', () => {
    expect(chosen(choose(model(), SOME, { ...wish, mode: 'near', focus: 1, steps: 1 }).mask)).toBe('a sales.b sales.c')
    expect(chosen(choose(model(), SOME, { ...wish, mode: 'near', focus: 1, steps: Infinity }).mask)).toBe('a sales.b sales.c d')
  })

  it('counts what needs attention since, and does not add it', () => {
    const live = SOME.slice()
    const { mask } = choose(model(), live, wish)
    live[1] = codeOf('fresh')
    live[3] = codeOf('failing')
    expect(chosen(mask)).toBe('a sales.b')
    expect(waiting(live, mask)).toBe(1)
  })
})

describe('positions', () => {
  it.each<Grouping>(['none', 'prefix'])('finds the same cells as a search through all (%s)', (grouping) => {
    const graph = wide(1000, 7)
    const plan = arrange(graph, new Uint8Array(1000).fill(1), grouping, 1.7)
    const into = new Uint32Array(1000)
    const box = [plan.width * 0.3, plan.height * 0.2, plan.width * 0.55, plan.height * 0.7] as const
    const found = [...into.subarray(0, slotsIn(plan, ...box, into))].sort((a, b) => a - b)
    const wanted = [...plan.x.keys()].filter((slot) =>
      plan.x[slot]! + CELL.width >= box[0] && plan.x[slot]! <= box[2] &&
      plan.y[slot]! + CELL.height >= box[1] && plan.y[slot]! <= box[3])
    expect(found).toEqual(wanted)
    expect(found.length).toBeGreaterThan(20)
    for (const slot of [0, 17, 400, 999]) {
      expect(slotAt(plan, plan.x[slot]! + 5, plan.y[slot]! + 5, 0)).toBe(slot)
      expect(slotAt(plan, plan.x[slot]! + CELL.width + 3, plan.y[slot]! + CELL.height + 4, 0)).toBe(-1)
    }
  })

  it('gives every asset a place of its own, in any grouping', () => {
    for (const grouping of ['none', 'prefix'] as const) {
      const plan = arrange(wide(500, 5), new Uint8Array(500).fill(1), grouping, 1.7)
      expect(new Set([...plan.x].map((x, slot) => `${x},${plan.y[slot]}`)).size).toBe(500)
    }
    const boxes = arrange(wide(500, 5), new Uint8Array(500).fill(1), 'boxes', 1.7)
    expect(boxes.blocks.map((one) => one.count).sort()).toEqual([166, 167, 167])
  })

  it('puts what is made from something to the right of it', () => {
    const plan = arrange(model(), new Uint8Array(5).fill(1), 'none', 1.7)
    for (const [from, to] of LAYOUT.edges) expect(plan.x[plan.slots[from]!]!).toBeLessThan(plan.x[plan.slots[to]!]!)
  })

  it('walks along edges and within a layer', () => {
    const graph = model()
    const plan = arrange(graph, Uint8Array.from([1, 1, 1, 0, 1]), 'none', 1.7)
    expect(step(graph, plan, 0, 'right')).toBe(1)
    expect(step(graph, plan, 0, 'down')).toBe(4)
    expect(step(graph, plan, 4, 'down')).toBe(-1)
    expect(step(graph, plan, 2, 'right')).toBe(-1) // d is not shown
    expect(step(graph, plan, 1, 'left')).toBe(0)
  })
})

describe('the camera', () => {
  it('keeps the point under the pointer when it zooms', () => {
    const camera = new Camera()
    camera.over({ width: 5000, height: 3000 })
    camera.resize(1000, 600)
    camera.fit()
    const [x, y] = [camera.worldX(700), camera.worldY(200)]
    camera.zoomAt(1.7, 700, 200)
    expect(camera.screenX(x)).toBeCloseTo(700)
    expect(camera.screenY(y)).toBeCloseTo(200)
  })

  it('is in the address, and a broken address shows everything', () => {
    const query = Object.fromEntries(Object.entries(viewQuery({ x: 10.4, y: 20, zoom: 0.123456 })).map(([k, v]) => [k, String(v)]))
    expect(readAddress(query).view).toEqual({ x: 10, y: 20, zoom: 0.1235 })
    for (const zoom of ['0', '-1', 'x', 'Infinity']) expect(readAddress({ ...query, zoom }).view).toBeNull()
    expect(readAddress({ show: 'constructor', steps: '-3', groups: 'x' })).toMatchObject({ mode: 'attention', steps: 2, grouping: null })
  })
})

it('cuts the middle of a name', () => {
  expect(shortened('flights.delay.hourly', 12)).toBe('flig….hourly')
  expect(shortened('flights.delay.hourly', 12)).toHaveLength(12)
  expect(shortened('short', 12)).toBe('short')
})

describe('live states', () => {
  const event = (position: number, type: string, data: Record<string, string>): FreshlineEvent => (
    { id: `e${position}`, type, subject: data.assetId ?? data.workflowSlug ?? '', time: '', position, data })

  /** Live states whose reads are answered by hand. */
  function started(): {
    live: LiveStates
    asked: (readonly string[] | null)[]
    answer: (position: number, found: Record<string, string>) => Promise<void>
  } {
    const asked: (readonly string[] | null)[] = []
    const waitingFor: ((found: AssetStates) => void)[] = []
    const live = new LiveStates(model(), {
      read: (assets) => {
        asked.push(assets)
        return new Promise((resolve) => waitingFor.push(resolve))
      },
      changed: () => undefined, outdated: () => undefined, failed: () => undefined,
    })
    const answer = async (position: number, found: Record<string, string>): Promise<void> => {
      waitingFor.shift()!({ at: '', position, epoch: 1, states: found })
      await vi.advanceTimersByTimeAsync(800)
    }
    return { live, asked, answer }
  }
  const named = (live: LiveStates): string => [...live.values].map(stateOf).join(' ')

  it('reads again what an event touches, and what reads it', async () => {
    vi.useFakeTimers()
    const { live, asked, answer } = started()
    await answer(5, { a: 'source', 'sales.b': 'fresh', 'sales.c': 'fresh', d: 'fresh', s: 'source' })
    live.take([event(6, 'asset.produced', { assetId: 'a' })])
    await vi.advanceTimersByTimeAsync(800)
    expect(asked).toEqual([null, ['a', 'sales.b']])
    await answer(6, { a: 'source', 'sales.b': 'stale' })
    expect(named(live)).toBe('source stale fresh fresh source')
    live.take([event(7, 'workflow.run.started', { workflowSlug: 'make-b' })])
    expect(named(live)).toBe('source running fresh fresh source')
    live.stop()
    vi.useRealTimers()
  })

  it('does not take an answer that is older than the last event', async () => {
    vi.useFakeTimers()
    const { live, asked, answer } = started()
    live.take([event(9, 'workflow.run.started', { workflowSlug: 'make-b' })])
    // This was read at position 8: before the run started.
    await answer(8, { a: 'source', 'sales.b': 'waiting', 'sales.c': 'fresh', d: 'fresh', s: 'source' })
    expect(stateOf(live.values[2]!)).toBe('fresh')
    expect(stateOf(live.values[1]!)).not.toBe('waiting')
    expect(asked.at(-1)).toEqual(['sales.b'])
    await answer(9, { 'sales.b': 'running' })
    expect(stateOf(live.values[1]!)).toBe('running')
    live.stop()
    vi.useRealTimers()
  })
})
