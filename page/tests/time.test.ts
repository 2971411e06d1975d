import { expect, test, vi } from 'vitest'
import { absolute, duration, fromField, now, relative, serverTime, toField } from '../src/time'

const AT = Date.parse('2026-01-05T09:00:00Z')

test('a duration has its two largest units', () => {
  expect([0, 999, 1000, 61_000, 3_600_000, 5_400_000, 86_400_000 * 2 + 3_600_000, 86_400_000 * 400].map(duration))
    .toEqual(['0 ms', '999 ms', '1s', '1m 1s', '1h', '1h 30m', '2d 1h', '400d'])
  expect(duration(-5)).toBe('0 ms')
  expect(duration(3_599_999)).toBe('59m 59s')
})

test('an age or a wait', () => {
  expect(relative('2026-01-05T08:55:00Z', AT)).toBe('5m ago')
  expect(relative('2026-01-05T11:00:00Z', AT)).toBe('in 2h')
  expect(relative('2026-01-05T09:00:01Z', AT)).toBe('now')
  expect(relative('not a time', AT)).toBe('not a time')
  expect(absolute('2026-01-05T09:00:00.123Z')).toBe('2026-01-05 09:00:00 UTC')
})

test('a field of the reader’s zone is the same moment', () => {
  expect(fromField(toField(AT))).toBe('2026-01-05T09:00:00.000Z')
  expect(fromField('')).toBeNull()
  expect(fromField('x')).toBeNull()
})

test('ages follow the clock of the server, not that of a wrong machine', () => {
  vi.useFakeTimers({ now: AT })
  try {
    serverTime('2026-01-05T10:00:00Z')
    expect(now.value).toBe(AT + 3_600_000)
    // The way of an answer is not a wrong clock.
    serverTime('2026-01-05T09:00:00.500Z')
    expect(now.value).toBe(AT)
    serverTime('nonsense')
    expect(now.value).toBe(AT)
  } finally {
    vi.useRealTimers()
  }
})
