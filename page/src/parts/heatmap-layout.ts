import type { Cells } from './partition-cells'
import { keyAt, type Grain } from './partition-keys'

/** Where the cells of a heat map are. Time goes from left to right, in bands below each other. */
export interface Layout {
  readonly size: number
  readonly pitch: number
  readonly width: number
  readonly height: number
  /** How many bands of time are below each other. */
  readonly bands: number
  readonly cell: (index: number) => { readonly x: number; readonly y: number }
  /** Return the cell at a point; null beside all of them. */
  readonly at: (x: number, y: number) => number | null
  /** How far the arrow keys go along time. */
  readonly steps: { readonly across: number; readonly down: number }
  readonly labels: readonly { readonly x: number; readonly y: number; readonly text: string }[]
}

/** A column is a period: the days of a week, the hours of a day. Without one, the cells fill rows. */
const ROWS: Readonly<Record<Grain, number>> = { minute: 60, hour: 24, day: 7, month: 12, week: 0, year: 0 }
/** What row 0 is, from the first place of a grain: 1970-01-01 is a Thursday. */
const SHIFT: Readonly<Record<Grain, number>> = { minute: 0, hour: 0, day: 3, month: 0, week: 0, year: 0 }
const SIZES = [18, 16, 14, 12, 10, 8, 6, 5, 4, 3, 2]
const HEAD = 16
const SPACE = 10
const SIDE = 30
/** About the width of a letter. */
const LETTER = 6.5
const DAYS = ['Mon', '', 'Wed', '', 'Fri', '', '']
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/** Marks are drawn from this size on. */
export const MARKED_FROM = 10

/**
 * Lay cells out in a width, as large as a height allows. While the marks stay readable, smaller cells in fewer bands are
 * better: a band for the last week alone would be hard to read.
 */
export function layoutOf(cells: Cells, width: number, most = 480): Layout {
  const rows = cells.grain === null ? 0 : ROWS[cells.grain]
  const calendar = rows > 0 && cells.total > 0
  const made = (size: number): Layout => (calendar ? inBands(cells, cells.grain!, rows, width, size) : inRows(cells, width, size))
  let best: Layout | null = null
  for (const size of SIZES) {
    if (best !== null && size < MARKED_FROM) break
    const found = made(size)
    if (found.height > most) continue
    if (best === null || found.bands < best.bands) best = found
  }
  return best ?? made(SIZES.at(-1)!)
}

const pitchOf = (size: number): number => size + (size >= 10 ? 2 : size >= 4 ? 1 : 0)

function inBands(cells: Cells, grain: Grain, rows: number, width: number, size: number): Layout {
  const pitch = pitchOf(size)
  const slotOf = (index: number): number => cells.placeOf(index) + SHIFT[grain]
  const base = Math.floor(slotOf(0) / rows)
  const columns = Math.floor(slotOf(cells.total - 1) / rows) - base + 1
  const perBand = Math.max(1, Math.floor((width - SIDE) / pitch))
  const bands = Math.ceil(columns / perBand)
  const tall = HEAD + rows * pitch + SPACE
  const cell = (index: number): { x: number; y: number } => {
    const slot = slotOf(index)
    const column = Math.floor(slot / rows) - base
    return {
      x: SIDE + (column % perBand) * pitch,
      y: Math.floor(column / perBand) * tall + HEAD + (slot % rows) * pitch,
    }
  }
  const at = (x: number, y: number): number | null => {
    const [column, band] = [Math.floor((x - SIDE) / pitch), Math.floor(y / tall)]
    const row = Math.floor((y - band * tall - HEAD) / pitch)
    if (column < 0 || column >= perBand || row < 0 || row >= rows || band < 0) return null
    const place = (base + band * perBand + column) * rows + row - SHIFT[grain]
    return cells.indexAt(place)
  }
  const labels = [...sideLabels(grain, bands, tall, pitch), ...headLabels(grain, base, columns, perBand, rows, tall, pitch)]
  return {
    size, pitch, width, bands, height: bands * tall, cell, at, labels,
    steps: { across: rows, down: 1 },
  }
}

function inRows(cells: Cells, width: number, size: number): Layout {
  const pitch = pitchOf(size)
  const perRow = Math.max(1, Math.floor(width / pitch))
  return {
    size, pitch, width, bands: 1, labels: [],
    height: Math.max(1, Math.ceil(cells.total / perRow)) * pitch,
    cell: (index) => ({ x: (index % perRow) * pitch, y: Math.floor(index / perRow) * pitch }),
    at: (x, y) => {
      const column = Math.floor(x / pitch)
      const index = Math.floor(y / pitch) * perRow + column
      return column >= 0 && column < perRow && y >= 0 && index < cells.total ? index : null
    },
    steps: { across: 1, down: perRow },
  }
}

function sideLabels(grain: Grain, bands: number, tall: number, pitch: number): Layout['labels'] {
  const texts = grain === 'day' ? DAYS : grain === 'month' ? MONTHS.map((one, n) => (n % 3 === 0 ? one : ''))
    : Array.from({ length: ROWS[grain] }, (_, n) => (n % (grain === 'hour' ? 6 : 15) === 0 ? String(n).padStart(2, '0') : ''))
  // Smaller rows leave no room for a text beside them.
  const every = texts.findIndex((one, n) => n > 0 && one !== '') * pitch
  if (every < 11) return []
  return Array.from({ length: bands }, (_, band) => texts.flatMap((text, row) => (
    text === '' ? [] : [{ x: 0, y: band * tall + HEAD + (row + 0.5) * pitch, text }]))).flat()
}

function headLabels(
  grain: Grain, base: number, columns: number, perBand: number, rows: number, tall: number, pitch: number,
): Layout['labels'] {
  const found: { x: number; y: number; text: string }[] = []
  let last = ''
  for (let column = 0; column < columns; column += 1) {
    const place = column % perBand
    if (place === 0) last = ''
    // The last row of a column: a week is named after the month in which it ends.
    const text = columnText(keyAt((base + column) * rows + rows - 1 - SHIFT[grain], grain), grain, last === '')
    const x = SIDE + place * pitch
    const before = found.at(-1)
    const y = Math.floor(column / perBand) * tall + HEAD - 6
    const room = before === undefined || before.y !== y || x - before.x >= before.text.length * LETTER + 8
    if (text.id !== last && room && x + text.shown.length * LETTER <= SIDE + perBand * pitch + pitch) {
      found.push({ x, y, text: text.shown })
      last = text.id
    }
  }
  return found
}

function columnText(key: string, grain: Grain, first: boolean): { id: string; shown: string } {
  const year = key.slice(0, 4)
  const month = MONTHS[Number(key.slice(5, 7)) - 1] ?? ''
  if (grain === 'month') return { id: year, shown: year }
  if (grain === 'day') return { id: key.slice(0, 7), shown: first || month === 'Jan' ? `${month} ${year}` : month }
  const date = `${Number(key.slice(8, 10))} ${month}`
  return grain === 'hour' ? { id: key.slice(0, 10), shown: first ? `${date} ${year}` : date }
    : { id: key.slice(0, 13), shown: `${date} ${key.slice(11, 13)}h` }
}
