import { expect, test } from 'vitest'
import { merge } from '../src/listing'

const item = (id: number, text = '') => ({ id, text })
const id = (one: { id: number }): string => String(one.id)

test('what is shown keeps its order and is updated where it is', () => {
  const shown = [item(3), item(2, 'running'), item(1)]
  const merged = merge(shown, [item(2, 'succeeded'), item(3)], id)
  expect(merged.shown).toEqual([item(3), item(2, 'succeeded'), item(1)])
  expect(merged.waiting).toEqual([])
})

test('new items wait, in the order of the server', () => {
  const merged = merge([item(1)], [item(5), item(4), item(1, 'x')], id)
  expect(merged.shown).toEqual([item(1, 'x')])
  expect(merged.waiting).toEqual([item(5), item(4)])
})

test('items that are no longer on the first page stay', () => {
  expect(merge([item(2), item(1)], [item(4), item(3)], id).shown).toEqual([item(2), item(1)])
  expect(merge([], [item(1)], id)).toEqual({ shown: [], waiting: [item(1)] })
})
