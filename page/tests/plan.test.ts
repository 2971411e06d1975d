import { describe, expect, it } from 'vitest'
import type { Plan, PlannedHold, PlannedRun, Simulation, SimulationResult } from '../src/types'
import { FIELDS, changesOf, parseQuiet, question } from '../src/views/plan/fields'
import { reading } from '../src/parts/chart-figures'
import { change, figures, holds, ordered, partitionsText, verdict } from '../src/views/plan/figures'
import { course, labelled, planSentence, positions } from '../src/views/plan/moments'
import { chartsOf, timesOf } from '../src/views/plan/over-time'
import { partitionFacts, partitioningText } from '../src/views/workflow/partitioning'
import { facts, policyOf } from '../src/views/workflow/policy'
import { parseParameters } from '../src/views/workflow/steps'
import { exact, toYaml } from '../src/views/workflow/yaml'

const run = (order: number, slug: string, notBefore: string | null = null): PlannedRun =>
  ({ order, notBefore, workflowSlug: slug, partitionKey: '', assets: [slug], outcome: 'run', reason: 'upstream-update', upstream: [], mixed: false })
const hold = (slug: string, until: string | null): PlannedHold =>
  ({ workflowSlug: slug, partitionKey: '', assets: [slug], outcome: 'hold', reason: 'paused', until, behind: [], evidence: {} })

describe('a plan', () => {
  const plan: Plan = {
    assetId: 'a', assumes: [], active: [], cut: [],
    runs: [run(1, 'b'), run(2, 'c', '2026-01-05T12:01:00Z'), run(3, 'd', '2026-01-05T12:01:00Z')],
    held: [hold('e', '2026-01-05T12:00:30Z'), hold('f', null)],
  }

  it('is in the order of time, with holds where they end', () => {
    const { moments, open } = course(plan)
    expect(moments.map((one) => [one.at, one.runs.map((each) => each.workflowSlug), one.ends.map((each) => each.workflowSlug)])).toEqual([
      [null, ['b'], []],
      ['2026-01-05T12:00:30Z', [], ['e']],
      ['2026-01-05T12:01:00Z', ['c', 'd'], []],
    ])
    expect(open.map((one) => one.workflowSlug)).toEqual(['f'])
  })

  it('puts moments between now and the last one, also if they have passed', () => {
    const { moments } = course(plan)
    const places = positions(moments, Date.parse('2026-01-05T12:00:00Z'))
    expect(places[0]).toBe(0)
    expect(places[1]).toBeGreaterThan(0.5)
    expect(places[2]).toBe(1)
    expect(positions(moments, Date.parse('2026-01-06T12:00:00Z'))).toEqual([0, 0, 0])
  })

  it('has labels that do not cover each other', () => {
    expect(labelled([0, 0.1, 0.3, 0.4, 0.9, 1])).toEqual([true, false, true, false, false, true])
    expect(labelled([0])).toEqual([true])
  })

  it('is one sentence', () => {
    expect(planSentence(plan)).toBe('If a changed now, 3 runs of 3 workflows would follow, 2 of them later; 2 workflows are held.')
    expect(planSentence({ ...plan, runs: [], held: [] })).toBe('No workflow reads a, so nothing would run.')
    expect(planSentence(plan, '2026-01-04')).toContain('If a@2026-01-04 changed now')
  })
})

describe('a question', () => {
  it('is in the address: changes by workflow and field, and nothing else', () => {
    const query = { workflow: 'x', 'shop-totals.debounce': '10m', 'shop-totals.ttl': 'none', 'other.onUpstreamUpdate': 'no', 'x.unknown': '1', 'y.ttl': '' }
    expect(changesOf(query)).toEqual({ 'shop-totals': { debounce: '10m', ttl: 'none' }, other: { onUpstreamUpdate: 'no' } })
    expect(question({ ...query, since: '3d', slots: '8' })).toEqual({
      question: { since: '3d', slots: 8, seed: 0, workflows: { 'shop-totals': { debounce: '10m', ttl: null }, other: { onUpstreamUpdate: false } } },
      problems: {},
    })
  })

  it('says which field is wrong', () => {
    const { problems } = question({ 'a.debounce': '10 minutes', 'a.cron': '30 2', 'a.quietHours': '22-6', 'a.priority': '-1' })
    expect(Object.keys(problems).sort()).toEqual(['a.cron', 'a.debounce', 'a.priority', 'a.quietHours'])
    expect(question({ since: 'drop', slots: '0', seed: 'x' }).question).toEqual({ since: '7d', slots: 1, seed: 0, workflows: {} })
  })

  it('reads quiet hours', () => {
    expect(parseQuiet('22:00-06:00 Sat,sun Europe/Berlin; 12:00–13:00')).toEqual([
      { from: '22:00', to: '06:00', days: ['sat', 'sun'], timezone: 'Europe/Berlin' }, { from: '12:00', to: '13:00' },
    ])
    expect(parseQuiet('none')).toEqual([])
    expect(() => parseQuiet('22:00-06:00 someday')).toThrow('neither days')
  })

  it('shows every field as it is applied', () => {
    const policy = policyOf({ steps: [{ produces: [
      { assetId: 'a', freshness: { ttlMs: 3_600_000 }, autoMaterialize: { onUpstreamUpdate: true, debounceMs: 90_000 } },
      { assetId: 'b', freshness: { ttlMs: 7_200_000 } },
    ] }] })
    const now = Object.fromEntries(FIELDS.map((field) => [field.name, field.now(policy)]))
    expect(now).toMatchObject({ onUpstreamUpdate: 'yes', debounce: '90s', maxDelay: 'none', maxWait: '1h', ttl: 'differs by output', cron: 'none' })
  })
})

describe('an answer', () => {
  const series = { bucketSeconds: 7200, runs: [6, 4], slotHours: [1.5, 0.5], lagSeconds: [{ p50: 60, p95: 120, max: 600 }, null] }
  const result = (more: Partial<SimulationResult>): SimulationResult =>
    ({ heldPartitions: null, series, runs: 10, failed: 0, mixed: 0, avoided: 0, pending: 0, slotHours: 2, breaches: 0, holds: {}, lagSeconds: { p50: 60, p95: 120, max: 600 }, ...more })
  const numbers = (runs: number, partitions: number | null = null) => ({ runs, partitions, runSeconds: runs, lagSeconds: null })
  const answer: Simulation = {
    start: '', end: '', seed: 0, slots: 4, reports: 5, notes: [], yaml: {},
    before: result({ holds: { paused: 1, debouncing: 3 } }), after: result({ runs: 4, slotHours: 0.8, breaches: 2, holds: { debouncing: 5 } }),
    workflows: [
      { slug: 'a', changed: false, before: numbers(9), after: numbers(9) },
      { slug: 'b', changed: false, before: numbers(5), after: numbers(1) },
      { slug: 'c', changed: true, before: numbers(1), after: numbers(1) },
    ],
  }

  it('is one sentence', () => {
    expect(verdict(answer)).toBe('With the change: 4 runs instead of 10, 0.8 slot hours instead of 2.0; 95 of 100 changes still arrive within 2m; 2 broken promises instead of 0.')
    expect(verdict({ ...answer, after: result({ slotHours: 2.01 }) })).toBe('With the change: the same 10 runs, 2.0 slot hours as before; 95 of 100 changes still arrive within 2m.')
    expect(verdict({ ...answer, after: null })).toContain('10 runs in 2.0 slot hours')
    expect(verdict({ ...answer, reports: 0 })).toContain('nothing to compare')
  })

  it('leaves out figures that are zero on both sides, and says differences', () => {
    const shown = figures(answer.before, answer.after)
    expect(shown.map((one) => one.name)).toEqual(['runs', 'slot hours', 'lag, median', 'lag, p95', 'lag, largest', 'broken promises'])
    expect(shown.map(change)).toEqual(['−6 (−60%)', '−1.2 (−60%)', 'the same', 'the same', 'the same', '+2'])
  })

  it('says of how many partitions runs were, and how many are held', () => {
    expect([partitionsText(16, 12), partitionsText(16, 16), partitionsText(1, null), partitionsText(null, null), partitionsText(0, 0)])
      .toEqual(['of 12 instead of 16 partitions', 'of 16 partitions', 'of 1 partition', '', ''])
    const held = figures(result({ heldPartitions: 3 }), result({ heldPartitions: 0 })).find((one) => one.name === 'held partitions')!
    expect([held.before, held.after, change(held)]).toEqual([3, 0, '−3 (−100%)'])
    expect(figures(result({}), result({})).some((one) => one.name === 'held partitions')).toBe(false)
  })

  it('has charts over the time, each with both policies', () => {
    const changed = { ...series, runs: [1, 3], lagSeconds: [null, { p50: 1, p95: 2, max: 3 }] }
    const played = { ...answer, start: '2026-01-05T00:00:00Z', end: '2026-01-05T03:00:00Z', after: result({ series: changed }) }
    const hour = 3_600_000
    expect(timesOf(played)).toEqual({ times: [0, 2 * hour].map((one) => Date.UTC(2026, 0, 5) + one), until: Date.UTC(2026, 0, 5, 3) })
    const charts = chartsOf(played)
    expect(charts.map((one) => [one.label, ...one.series.map((side) => side.values)])).toEqual([
      ['Runs', [6, 4], [1, 3]],
      ['Time of runs', [1.5 * hour, 0.5 * hour], [1.5 * hour, 0.5 * hour]],
      ['Lag, median', [60_000, null], [null, 1000]],
      ['Lag, p95', [120_000, null], [null, 2000]],
    ])
    expect(reading(charts[0]!.series, charts[0]!.unit, 1)).toBe('4 runs as applied and 3 runs with the change')
    expect(reading(charts[3]!.series, charts[3]!.unit, 1)).toBe('2s with the change')
    expect(chartsOf({ ...played, after: null }).every((one) => one.series.length === 1)).toBe(true)
  })

  it('shows changed workflows first, then the largest differences', () => {
    expect(ordered(answer).map((one) => one.slug)).toEqual(['c', 'b', 'a'])
    expect(holds(answer)).toEqual([['debouncing', 3, 5], ['paused', 1, 0]])
  })
})

describe('a policy', () => {
  const definition = {
    steps: [
      { consumes: [{ assetId: 'x' }, { assetId: 'y', autoMaterialize: { onUpstreamUpdate: false }, freshness: { maxAgeMs: 7_200_000 } }],
        produces: [{ assetId: 'a', autoMaterialize: { onUpstreamUpdate: true, onMissing: false, priority: 50, debounceMs: 60_000 } }] },
      { consumes: [{ assetId: 'a' }], produces: [
        { assetId: 'b', autoMaterialize: { priority: 5 } }, { assetId: 'c', autoMaterialize: { enabled: false, priority: 1 } }] },
    ],
  }

  it('is merged from the blocks that are on; own outputs are no inputs', () => {
    expect(policyOf(definition)).toMatchObject({
      automatic: true, onUpstreamUpdate: true, onMissing: true, priority: 5, debounceMs: 60_000, maxDelayMs: null,
      inputs: [{ assetId: 'x', triggers: true, maxAgeMs: null }, { assetId: 'y', triggers: false, maxAgeMs: 7_200_000 }],
    })
  })

  it('says that a workflow without blocks runs only on request', () => {
    expect(facts(policyOf({ steps: [{ produces: [{ assetId: 'a' }] }] }), {})[0]?.[1]).toContain('no autoMaterialize block')
  })
})

describe('partitions', () => {
  it('are a sentence for each kind', () => {
    const day = { time: 'day', start: '2025-12-01', end: '2026-02-01', timezone: 'Europe/Berlin', open: true }
    expect(partitioningText(day)).toBe('one for each day since 2025-12-01 until 2026-02-01 (Europe/Berlin), the running one too')
    expect(partitioningText({ time: 'hour', start: '2025-12-01', timezone: 'UTC' })).toBe('one for each hour since 2025-12-01')
    expect(partitioningText({ keys: ['a', 'b', 'c', 'd', 'e', 'f'] })).toBe('6 keys: a, b, c, d, e and 1 more')
    expect([partitioningText({ dynamic: { limit: 1000 } }), partitioningText({ dynamic: {} })]).toEqual(['keys that appear, at most 1,000', 'keys that appear'])
    expect(partitioningText({ dimensions: { day: { time: 'day', start: '2025-12-01' }, region: { keys: ['eu'] } } }))
      .toBe('day: one for each day since 2025-12-01; region: 1 key: eu')
  })

  it('are lines of a policy, if there are some', () => {
    const definition = (more: object) => ({ steps: [{ produces: [{ assetId: 'a', partitioning: { time: 'day', start: '2025-12-01' }, ...more }] }] })
    expect(partitionFacts({ steps: [{ produces: [{ assetId: 'a' }] }] })).toEqual([])
    expect(partitionFacts(definition({ autoMaterialize: { onUpstreamUpdate: true } })).at(-1))
      .toEqual(['old partitions', 'up to 100 in 24 hours run without an approval; more are proposed as a backfill', true])
    const told = partitionFacts(definition({ retainMs: 864e5, frozenAfterMs: 36e5, autoMaterialize: { partitions: { limit: 3, beyond: 'ignore' } } }))
    expect(told.map(([name]) => name)).toEqual(['partitions', 'old partitions', 'frozen', 'retained'])
    expect(told[1]).toEqual(['old partitions', 'up to 3 in 24 hours run without an approval; more are ignored', false])
    expect(told[3]![1]).toBe('removed 1d after the end of their window')
  })
})

describe('a definition as YAML', () => {
  it('has durations with units, but not in blocks of users', () => {
    expect([exact(90_000), exact(129_600_000), exact(86_400_000), exact(1500)]).toEqual(['90s', '36h', '1d', '1500ms'])
    expect(toYaml({ steps: [], backoff: { baseMs: 1000 }, parameters: { waitMs: 5 } })).toBe('parameters: { waitMs: 5 }\nbackoff: { base: 1s }\nsteps: []\n')
  })

  it('keeps texts that another reader could take for something else', () => {
    const text = toYaml({ slug: 'on', description: 'a: b # c', steps: [{ id: '1', job: { sql: 'SELECT 1\n  AS n' } }], parameters: { from: '22:00', no: 'null', '1': '' } })
    expect(text).toContain('slug: "on"')
    expect(text).toContain('description: "a: b # c"')
    expect(text).toContain('  - id: "1"\n    job:\n      sql: |-\n        SELECT 1\n          AS n')
    expect(text).toContain('{ "1": "", from: "22:00", "no": "null" }')
  })
})

it('parameters are JSON, else text', () => {
  expect(parseParameters('day=2026-01-05\n limit=10 \n\nname=a=b')).toEqual({ day: '2026-01-05', limit: 10, name: 'a=b' })
  expect(() => parseParameters('=1')).toThrow('NAME=VALUE')
})
