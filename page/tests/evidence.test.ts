import { describe, expect, it } from 'vitest'
import { causesOf, holdEnd, inputRows, rootCauseStep, wouldRun } from '../src/parts/evidence-text'
import type { Conclusion, Evidence, InputEvidence, RootCause } from '../src/types'
import { blockerOf } from '../src/views/why/chain'
import { justAfter } from '../src/views/why/data'

const decided = (outcome: Conclusion['outcome'], reason: string, evidence: Evidence = {}): Conclusion =>
  ({ workflowSlug: 'report', partitionKey: '', outcome, reason, evidence })
const input = (assetId: string, key: string, changed: boolean): InputEvidence =>
  ({ assetId, partitionKey: key, from: '1', to: changed ? '2' : '1', changed, changes: changed ? 1 : 0, triggers: true })

describe('inputs', () => {
  it('shows the partitions that changed, and one line for the rest', () => {
    const days = Array.from({ length: 30 }, (_, n) => input('days', `2024-01-${n + 1}`, n === 3 || n > 22))
    const rows = inputRows([...days, input('rates', '', false)])
    expect(rows.map((one) => one.meaning)).toEqual([
      'changed', 'changed', 'changed', 'changed', 'changed', '25 more partitions: 3 changed', 'the same',
    ])
    expect(rows[5]?.changed).toBe(true)
  })

  it('is one line if none of many partitions changed', () => {
    const rows = inputRows(Array.from({ length: 9 }, (_, n) => input('days', `${n}`, false)))
    expect(rows).toMatchObject([{ meaning: '9 partitions: the same', changed: false, count: 9 }])
  })
})

describe('what would make it run', () => {
  it('names every hold, and the run by hand that ignores them', () => {
    const texts = wouldRun(decided('hold', 'paused', { alsoHeldBy: ['debouncing'] }), null)
    expect(texts).toHaveLength(3)
    expect(texts[0]).toContain('freshline resume report')
    expect(texts.at(-1)).toContain('freshline run report')
  })

  it('names the inputs that trigger and the expiry of what is up to date', () => {
    const inputs = [input('a', '', false), { ...input('b', '', false), triggers: false }, input('c', '', false)]
    const texts = wouldRun(decided('skip', 'up-to-date', { inputs }), { expiresAt: '2024-01-01T00:00:00Z', expired: false })
    expect(texts.slice(0, 2)).toEqual(['A change of a or c.', 'Its expiry at 2024-01-01T00:00:00Z.'])
  })

  it('says of an unknown reason of a newer server that it must end', () => {
    expect(wouldRun(decided('hold', 'moon-phase'), null)[0]).toBe('moon phase must end.')
  })

  it('quotes names of users in commands', () => {
    const text = rootCauseStep({ kind: 'paused', workflowSlug: 'a; rm -rf /', assetId: null, partitionKey: '', runId: null, error: null, append: false, partitioned: false } satisfies RootCause)
    expect(text.next.command).toBe("freshline resume 'a; rm -rf /'")
  })
})

describe('the chain', () => {
  it('follows blockers, missing inputs and inputs that are too old', () => {
    expect(blockerOf(decided('hold', 'waiting-for-upstream', { blockers: [{ workflowSlug: 'days', partitionKey: '2024', motion: 'queued', until: null }] })))
      .toEqual({ workflow: 'days', partitionKey: '2024' })
    expect(blockerOf(decided('hold', 'input-missing', { missing: ['sales@2024-01'] }))).toEqual({ asset: 'sales', partitionKey: '2024-01' })
    expect(blockerOf(decided('hold', 'input-too-old', { assetId: 'raw' }))).toEqual({ asset: 'raw', partitionKey: '' })
    expect(blockerOf(decided('skip', 'up-to-date'))).toBeNull()
  })

  it('includes the decision of the time that a link names, also with microseconds', () => {
    expect(justAfter('2024-01-01T00:00:00.123456Z')).toBe('2024-01-01T00:00:00.124Z')
    expect(justAfter('tomorrow')).toBeNull()
  })

  it('takes the deadline as the end of a hold', () => {
    expect(holdEnd(decided('hold', 'waiting-for-upstream', { deadline: 'd', until: 'u' }))).toBe('d')
  })
})

it('does not explain a partition by the failure of another one', () => {
  const cause = { kind: 'failing', workflowSlug: 'days', assetId: 'sales', runId: 'r', error: 'e', append: false, partitioned: false } as const
  const causes = [{ ...cause, partitionKey: '2024-01-01' }, { ...cause, partitionKey: '2024-01-02' }, { ...cause, workflowSlug: 'raw', partitionKey: '2024-01-01T05' }]
  expect(causesOf(causes, 'days', '2024-01-02').map((one) => one.partitionKey)).toEqual(['2024-01-02', '2024-01-01T05'])
  expect(causesOf(causes, 'days', '')).toHaveLength(3)
})
