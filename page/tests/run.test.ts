import { describe, expect, it } from 'vitest'
import { givenParameters } from '../src/views/run/actions'
import { summary } from '../src/views/run/caused'
import { difference } from '../src/views/run/inputs'
import { standing } from '../src/views/run/progress'
import { runsCommand } from '../src/views/runs'
import type { EventDetail, EventFate, Run, RunInput, RunOutput } from '../src/types'

const input = (version: number, dataVersion: string): RunInput => ({ assetId: 'a', partitionKey: '', version, dataVersion })

describe('what a run read against what is current', () => {
  it('tells the same version, the same data, newer and older ones apart', () => {
    expect(difference(input(3, 'x'), input(3, 'x'))).toBe('same')
    expect(difference(input(3, 'x'), input(5, 'x'))).toBe('identical')
    expect(difference(input(3, 'x'), input(4, 'y'))).toBe('newer')
    expect(difference(input(3, 'x'), input(2, 'y'))).toBe('older')
    expect(difference(input(3, 'x'), null)).toBe('unknown')
  })
})

describe('progress', () => {
  it('is that of the job, else that of the tasks', () => {
    const spark = { done: 12, total: 200, stages: 1 }
    expect(standing({ step: 's', job: { done: 3, total: 10 }, spark })).toMatchObject({ done: 3, total: 10 })
    expect(standing({ step: 's', job: null, spark }).text).toBe('12 of 200 tasks of Spark, 1 stage running')
    expect(standing({ step: 's', job: { done: 3, total: null } }).total).toBeNull()
    expect(standing(null).text).toBe('')
  })
})

describe('what a run caused', () => {
  const fate = (name: EventFate['fate'], reason: string | null, runId: string | null): EventFate =>
    ({ workflowSlug: name, partitionKey: '', fate: name, reason, until: null, runId, runStatus: null, supersededBy: null, decisionId: null, evidence: {} })
  const effect = (...fates: EventFate[]) =>
    ({ output: {} as RunOutput, event: { fates, consumers: fates.length } as unknown as EventDetail })

  it('counts a run once, and the runs that identical data made unnecessary', () => {
    const effects = [effect(fate('triggered', 'upstream-update', 'r1')), effect(fate('triggered', 'upstream-update', 'r1'), fate('ignored', 'unchanged', null))]
    expect(summary(effects)).toBe('1 run triggered, 1 run avoided because the data is identical')
    expect(summary([effect(fate('ignored', 'does-not-trigger', null))])).toBe('0 runs triggered')
  })
})

describe('commands', () => {
  it('of a listing have its filters, safe for a shell', () => {
    expect(runsCommand({ state: 'failed', workflow: "a'b; rm -rf /", since: '24h', other: 'x' }))
      .toBe(`freshline runs --state failed --workflow 'a'\\''b; rm -rf /' --since 24h`)
  })

  it('of a repeated run have the parameters that somebody gave, not those of the definition', () => {
    const run = { parameters: { day: '2024-01-31', limit: 10 }, trigger: { type: 'manual', parameters: ['day', 'gone'] } } as unknown as Run
    expect(givenParameters(run)).toEqual({ day: '2024-01-31' })
  })
})
