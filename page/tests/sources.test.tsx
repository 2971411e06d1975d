import { render } from 'preact'
import { expect, it } from 'vitest'
import { LastChange } from '../src/views/sources/change'
import { Reported } from '../src/views/sources/detail'

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

it('names the partitions of the last look, the newest first, as text that leads to each', () => {
  const box = document.createElement('div')
  const keys = Array.from({ length: 20 }, (_, index) => `2026-01-${String(index + 1).padStart(2, '0')}`)
  render(<Reported id="sales.raw" keys={[...keys.slice(1), '<b>x</b>']} />, box)
  expect(box.textContent).toContain('<b>x</b>2026-01-20')
  expect(box.querySelector('b')).toBeNull()
  expect(box.textContent).toContain('the newest 20 of the last look that reported')
  expect([...box.querySelectorAll('a')].at(1)!.getAttribute('href')).toContain('partition=2026-01-20')
  render(<Reported id="sales.raw" keys={keys.slice(0, 2)} />, box)
  expect(box.textContent).toBe('2026-01-022026-01-01of the last look that reported')
})
