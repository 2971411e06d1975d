import { describe, expect, it } from 'vitest'
import { compareSchemas, typeText } from '../src/views/asset/schema'
import { promiseText } from '../src/views/asset/promise'
import { bodyOf, commandOf } from '../src/views/backfills/request'
import { noteTexts, progressText, reasonText, timeText } from '../src/views/backfills/text'
import type { BackfillPreview, PreviewPart } from '../src/types'

describe('the difference of columns', () => {
  it('finds what was added, removed and changed, also in nested types', () => {
    const list = (type: string) => ({ type: 'array', elementType: type, containsNull: true })
    const found = compareSchemas(
      [{ name: 'a', type: 'string', nullable: true }, { name: 'b', type: 'int' }, { name: 'c', type: list('int') }],
      [{ name: 'c', type: list('bigint') }, { name: 'a', type: 'string', nullable: false }, { name: 'd', type: 'date' }],
    )
    expect(found.added.map((one) => one.name)).toEqual(['d'])
    expect(found.removed.map((one) => one.name)).toEqual(['b'])
    expect(found.retyped).toEqual([
      { name: 'c', from: 'array<int>', to: 'array<bigint>' },
      { name: 'a', from: 'string', to: 'string not null' },
    ])
    expect(found.reordered).toBe(true)
  })

  it('writes nested types as SQL does', () => {
    const point = { type: 'struct', fields: [{ name: 'x', type: 'double', nullable: true }] }
    expect(typeText({ type: 'map', keyType: 'string', valueType: point })).toBe('map<string, struct<x: double>>')
  })
})

it('says what an asset promises', () => {
  expect(promiseText({ ttlMs: 86_400_000, cron: '0 6 * * *', maxAgeMs: 21_600_000 }))
    .toBe('Promised: never older than 6h. It expires 1d after it was produced and at `0 6 * * *` (UTC).')
  expect(promiseText({})).toBeNull()
})

describe('a new backfill', () => {
  it('leaves out what is not set, and keys exclude a range', () => {
    expect(bodyOf({ new: '1', asset: 'a', from: '2024', keys: 'x, y', batch: '30', concurrency: 'many', partial: '1' }))
      .toEqual({ assetId: 'a', keys: ['x', 'y'], batch: 30, partial: true })
  })

  it('is the command that does the same', () => {
    expect(commandOf({ asset: "it's", from: '2024-01-01', only: 'failed', downstream: '1' }, '--dry-run'))
      .toBe(`freshline backfill 'it'\\''s' --from 2024-01-01 --only failed --downstream --dry-run`)
  })
})

describe('the cost of a backfill', () => {
  const part = (more: Partial<PreviewPart>): PreviewPart => ({
    workflowSlug: 'w', partitions: 8, runs: 8, first: '', last: '', frozen: 0, sealed: 0, outside: 0, p50Ms: 60_000, p95Ms: 120_000, rows: 1, bytes: 1, ...more,
  })
  const preview = (...parts: PreviewPart[]): BackfillPreview => ({ assetId: 'a', partitions: 8, parts, downstream: [{ workflowSlug: 'm', partitions: 2 }] })

  it('divides the runs by how many run at a time', () => {
    expect(timeText(preview(part({}), part({ p50Ms: null })), 4)).toBe('About 2m, at most 4m with 4 runs at a time; 1 workflow not measured yet.')
    expect(timeText(preview(part({ p50Ms: null })), 4)).toContain('not known')
  })

  it('says what is sealed and what follows', () => {
    const texts = noteTexts(preview(part({ sealed: 2 })), false)
    expect(texts[0]).toContain('refused')
    expect(noteTexts(preview(part({ sealed: 2 })), true)[0]).toContain('computed from what is left')
    expect(texts[1]).toContain('m (2)')
  })

  it('says how far it is, and why it was proposed', () => {
    const progress = { total: 366, done: 120, failed: 1, refused: 0, running: 4, queued: 0, waiting: 0, rest: 241 }
    expect(progressText(progress, false)).toBe('120 of 366 (32 %) done, 1 failed, 4 running, 241 to come')
    expect(progressText(progress, true)).toContain('241 not computed')
    expect(reasonText({ workflowSlug: 'w', partitions: 1, assetId: 'a', dataVersion: 'v2' })).toBe('w: 1 partition, input a changed to v2')
  })
})
