import { expect, test } from 'vitest'
import { bytes, counted, few, firstLine, logText, quote, version, visible } from '../src/format'

test('a word for a shell is quoted, and cannot end its quotes', () => {
  expect(quote('flights.raw')).toBe('flights.raw')
  expect(quote('a@2024-01-31T05')).toBe('a@2024-01-31T05')
  expect(quote('')).toBe("''")
  expect(quote("x'; rm -rf ~; '")).toBe(`'x'\\''; rm -rf ~; '\\'''`)
  expect(quote('$(id)')).toBe("'$(id)'")
  expect(quote('`id`')).toBe("'`id`'")
})

test('a quoted word has no line break, escape or direction mark', () => {
  for (const bad of ['a\nrm x', 'a\rb', 'a\u001b[31m', 'a\u202eb', 'a\u0000b', 'a\u0085b']) {
    // eslint-disable-next-line no-control-regex
    expect(quote(bad)).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e]/)
  }
})

test('control characters are visible, everything else is left', () => {
  expect(visible('a\u0000b\u001bc\nd\te')).toBe('a\u2400b\u241bc\u240ad\u2409e')
  expect(visible('\u202etxt.exe\u2069')).toBe('\ufffdtxt.exe\ufffd')
  expect(visible('<b>ünï 😀 مرحبا</b>')).toBe('<b>ünï 😀 مرحبا</b>')
})

test('a log line loses colours and keeps tabs', () => {
  expect(logText('\u001b[1;31mERROR\u001b[0m\tx')).toBe('ERROR\tx')
  expect(logText('a\u001b]0;title\u0007b')).toBe('a\u241b]0;title\u2407b')
})

test('numbers and names in words', () => {
  expect(counted(1, 'run')).toBe('1 run')
  expect(counted(10_000, 'entry', 'entries')).toBe('10,000 entries')
  expect(few(['a', 'b', 'c', 'd', 'e'])).toBe('a, b, c and 2 more')
  expect(few(['a', 'b'])).toBe('a and b')
  expect([bytes(null), bytes(1023), bytes(1024), bytes(15 * 1024 ** 3)]).toEqual(['–', '1023 B', '1.0 KB', '15 GB'])
  expect(version('fp1:0123456789abcdef0123')).toBe('fp1:01234567…'.slice(0, 12) + '…')
  expect(version('2024-01-31')).toBe('2024-01-31')
  expect(firstLine('\n  a\nb')).toBe('a')
  expect(firstLine(null)).toBe('no error was stored')
})
