import { render } from 'preact'
import { expect, it } from 'vitest'
import { LastChange } from '../src/views/sources/change'

const text = (asset: Parameters<typeof LastChange>[0]['asset']): string => {
  const box = document.createElement('div')
  render(<LastChange asset={asset} />, box)
  return box.textContent ?? ''
}

it('says of a source with partitions how many were reported, and never that none was', () => {
  const counts = { missing: 19, fresh: 16 }
  expect(text({ producedAt: null, partitions: { total: 35, counts } })).toBe('16 of 35 partitions')
  expect(text({ producedAt: null, partitions: null })).toBe('never reported')
  expect(text({ producedAt: new Date().toISOString(), partitions: null })).toContain('now')
})
