import { expect, test } from 'vitest'
import { reportBody, reportCommand } from '../src/views/overview/actions'
import { around, capital, identity, inOrder } from '../src/views/overview/order'
import type { Cause } from '../src/types'

const cause = (kind: string, slug: string, more: Partial<Cause> = {}): Cause => ({
  kind, assetId: null, workflowSlug: slug, partitionKey: '', runId: null, backfillId: null, reason: null, since: null, until: null,
  explains: 1, behind: 0, assets: [], sentence: '', error: null, next: { text: '', command: null, action: null }, ...more,
})
const names = (causes: readonly Cause[]): string[] => causes.map((one) => one.workflowSlug ?? '')

test('causes stay where they are while somebody reads; new ones come after them', () => {
  const first = inOrder([cause('failing', 'a'), cause('paused', 'b'), cause('running', 'r')], [])
  expect(names(first)).toEqual(['a', 'b', 'r'])
  const shown = first.map(identity)
  const next = inOrder([cause('failing', 'new'), cause('running', 'q'), cause('paused', 'b'), cause('failing', 'a')], shown)
  expect(names(next)).toEqual(['a', 'b', 'new', 'q'])
})

test('a workflow that was queued and runs now is the same line, one that fails is another', () => {
  expect(identity(cause('queued', 'a'))).toBe(identity(cause('running', 'a')))
  expect(identity(cause('failing', 'a'))).not.toBe(identity(cause('running', 'a')))
  expect(identity(cause('never-reported', 'a', { workflowSlug: null, assetId: 'a' })))
    .not.toBe(identity(cause('overdue', 'a', { workflowSlug: null, assetId: 'a' })))
})

test('a name in a sentence is found as a whole', () => {
  expect(around('orders fails', 'orders')).toEqual(['', 'orders', ' fails'])
  expect(around('orders.daily waits for orders.', 'orders')).toEqual(['orders.daily waits for ', 'orders', '.'])
  expect(around('orders-clean fails', 'orders')).toBeNull()
  expect(around('x', null)).toBeNull()
  expect(capital('all 3 assets are fresh')).toBe('All 3 assets are fresh.')
})

test('the command of a report does what the page sends', () => {
  const values = { partition: '2026-01-31', version: "v'1", path: 'a b.parquet' }
  expect(reportCommand('shop.orders', values))
    .toBe(`freshline report shop.orders --partition 2026-01-31 --data-version 'v'\\''1' --payload '{"path":"a b.parquet"}'`)
  expect(reportBody(values)).toEqual({ partitionKey: '2026-01-31', dataVersion: "v'1", payload: { path: 'a b.parquet' } })
  expect(reportCommand('-x; id', {})).toBe("freshline report '-x; id'")
  expect(reportBody({})).toEqual({})
})
