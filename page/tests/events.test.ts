import { describe, expect, it } from 'vitest'
import { conclusionText, fateText } from '../src/parts/conclusion'
import { eventText } from '../src/parts/event-text'
import { differences, subjectAt } from '../src/views/audit/changes'
import { selection } from '../src/format'
import { allowed } from '../src/views/tokens'
import { matchingSources, sourceIds, watchMark, watchText } from '../src/views/sources/data'
import { webhookState } from '../src/views/webhooks/state'
import { processState, troubles } from '../src/views/workers/state'
import type { AuditEntry, Conclusion, EventFate, FreshlineEvent, Watch, Webhook, Worker } from '../src/types'

const decision = (outcome: Conclusion['outcome'], reason: string, evidence: Conclusion['evidence']): Conclusion =>
  ({ workflowSlug: 'report', partitionKey: '', outcome, reason, evidence })

describe('decisions as sentences', () => {
  it('say what the command line says', () => {
    const waiting = decision('hold', 'waiting-for-upstream', {
      blockers: [{ workflowSlug: 'clean', motion: 'running', until: null }], deadline: '2026-01-05T09:30:00Z', alsoHeldBy: ['debouncing'],
    })
    expect(conclusionText(waiting)).toBe(
      'held: waiting for upstream workflow clean, which is running, until 2026-01-05T09:30:00Z at the latest; also held by debouncing')
    const retry = decision('run', 'retry', { cause: 'upstream-update', inputs: [{ assetId: 'orders', from: 'seq:1', to: 'seq:2', changed: true, changes: 1, triggers: true }] })
    expect(conclusionText(retry)).toBe('run: tried again after a failure; orders changed (seq:1 → seq:2)')
  })

  it('keep the sentence of the server, and survive a reason that is not known', () => {
    expect(conclusionText({ ...decision('hold', 'paused', {}), sentence: 'held: paused' })).toBe('held: paused')
    expect(conclusionText(decision('hold', 'brand-new', {}))).toBe('held: brand new')
    expect(conclusionText(decision('hold', 'constructor', {}))).toBe('held: constructor')
  })
})

describe('fates', () => {
  const fate = (more: Partial<EventFate>): EventFate => ({
    workflowSlug: 'w', partitionKey: '', fate: 'ignored', reason: null, until: null, runId: null, runStatus: null, supersededBy: null,
    decisionId: null, evidence: {}, ...more,
  })

  it('say why nothing ran, and what holds', () => {
    expect(fateText(fate({ reason: 'unchanged' }))).toBe('the data is the same as before')
    expect(fateText(fate({ fate: 'held', reason: 'cooling-down', evidence: { failures: 1 }, runId: 'r', runStatus: 'failed' })))
      .toBe('it cools down after 1 failure; its run failed')
    expect(fateText(fate({ fate: 'superseded' }))).toBe('a newer change came before any run read it')
  })
})

describe('events in a few words', () => {
  const event = (type: string, data: FreshlineEvent['data']): FreshlineEvent =>
    ({ id: 'e', type, subject: 's', time: '2026-01-05T09:00:00Z', position: 1, data })

  it('say whether data changed and where it comes from', () => {
    expect(eventText(event('asset.produced', { dataVersion: '3f9c', changed: false, rows: 1, runId: 'r' }))).toBe('3f9c, identical to the version before, 1 row')
    expect(eventText(event('asset.produced', { dataVersion: 'v1', changed: true, rows: null, runId: null }))).toBe('v1, reported from outside')
  })

  it('show the first line of an error, with control characters visible', () => {
    expect(eventText(event('workflow.run.failed', { error: { code: 'job', message: 'no\u0007\nmore' } }))).toBe('no\u2407')
  })
})

describe('the audit', () => {
  it('shows the values that differ; of a new thing all, of a removed one that it is gone', () => {
    expect(differences({ a: 1, b: 2 }, { a: 1, b: 3 })).toEqual([{ name: 'b', before: '2', after: '3' }])
    expect(differences(null, { a: ['x'] })).toEqual([{ name: 'a', before: null, after: '["x"]' }])
    expect(differences({ a: 1 }, null)).toEqual([{ name: 'a', before: '1', after: 'removed' }])
  })

  it('links to what still exists', () => {
    const entry = (what: string, subject: string): AuditEntry => ({ id: '1', at: '', who: 'w', tokenId: null, what, subject, before: null, after: null })
    expect(subjectAt(entry('report', 'sales@2024-01-31'))).toBe('#/assets/sales')
    expect(subjectAt(entry('remove_webhook', 'x'))).toBeNull()
    expect(subjectAt(entry('apply', 'lab'))).toBeNull()
  })
})

describe('sources', () => {
  const watch = (failures: number, more: Partial<Watch> = {}): Watch =>
    ({ failures, breakerOpenedAt: null, looking: false, lookedAt: '2026-01-05T09:00:00Z', ...more }) as Watch

  it('come from the picture of the graph, failing ones first', () => {
    const ids = sourceIds({ nodes: [['b', 0, 0, 'source'], ['x', 1, 0, 'asset'], ['a', 0, 1, 'source'], ['c', 0, 2, 'source']] })
    expect(ids).toEqual(['a', 'b', 'c'])
    const watches = new Map([['b', watch(0)], ['c', watch(2)]])
    expect(matchingSources(ids, watches, '', '')).toEqual(['c', 'a', 'b'])
    expect(matchingSources(ids, watches, '', 'none')).toEqual(['a'])
    expect(matchingSources(ids, watches, 'B', 'watched')).toEqual(['b'])
  })

  it.each([
    ['the last look succeeded', watch(0)],
    ['it has not looked yet', watch(0, { lookedAt: null })],
    ['a process looks now', watch(0, { lookedAt: null, looking: true })],
    ['the last look failed', watch(1, { lookedAt: null })],
    ['the last 3 looks failed', watch(3)],
    ['the last look failed', watch(0, { breakerOpenedAt: '2026-01-05T09:00:00Z' })],
  ])('say of their watcher: %s', (text, one) => {
    expect(watchText(one)).toBe(text)
    // What is not known yet is not good.
    expect(watchMark(one) === 'ok').toBe(text === 'the last look succeeded')
  })
})

describe('what a token or a filter allows', () => {
  it('is said once, without a contradiction', () => {
    expect(allowed({ scope: 'read', data: true })).toBe('reads everything, with rows')
    expect(allowed({ scope: 'read', data: false })).toBe('reads everything but rows')
    expect(allowed({ scope: 'operate', data: true })).toBe('also reports, runs, cancels and pauses; reads rows too')
    expect(allowed({ scope: 'admin', data: true })).toBe('may do everything')
  })

  it('has a word for everything', () => {
    expect(selection(['*'], 'all events')).toBe('all events')
    expect(selection(['asset.*', 'backfill.*'], 'all events')).toBe('asset.* and backfill.*')
  })
})

describe('states', () => {
  it('of a webhook name the worst that somebody must know', () => {
    const hook = (more: Partial<Webhook>): Webhook => ({ paused: false, failures: 0, dead: 0, ...more }) as Webhook
    expect(webhookState(hook({ paused: true, failures: 9 })).state).toBe('paused')
    expect(webhookState(hook({ failures: 3, dead: 1 })).state).toBe('failing')
    expect(webhookState(hook({ dead: 1 })).state).toBe('dead')
    expect(webhookState(hook({})).state).toBe('ok')
  })

  it('of a process tell one that ended from one that was killed', () => {
    const one = { stoppedAt: null, live: false, info: { engine: 'no Java', bus: 'ok' } } as unknown as Worker
    expect(processState(one)).toBe('silent')
    expect(troubles(one)).toEqual(['Spark: no Java'])
    expect(processState({ ...one, stoppedAt: '2026-01-05T09:00:00Z' })).toBe('stopped')
  })
})
