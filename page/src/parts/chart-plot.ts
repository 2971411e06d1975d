import UPlot, { type AlignedData, type Options } from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { look } from '../states'
import { CLOCK, clocks, heightOf, intervalAt, RIGHT, SIDE, spanOf, type Series, type Unit } from './chart-figures'
import { colourOf } from './heatmap-draw'

/** What a plot is drawn from. */
export interface Figures {
  /** In milliseconds, ascending. */
  readonly times: readonly number[]
  readonly series: readonly Series[]
  /** The times are the starts of intervals, and the last one ends here. */
  readonly until?: number | undefined
}

/** How a plot is made; other figures can be put into it later. */
export interface Setup {
  readonly unit: Unit
  readonly width: number
  readonly height: number
  /** Whether the times are written below it. */
  readonly clock: boolean
  /** Plots with the same name show the same time. */
  readonly together: string
  /** Called with the index of the time under the cursor; null if it is elsewhere. */
  readonly onPoint: (index: number | null) => void
}

export interface Plot {
  readonly put: (figures: Figures) => void
  readonly resize: (width: number) => void
  /** Draw again with the colours of the theme. */
  readonly paint: () => void
  readonly remove: () => void
}

const FONT = '12px system-ui, sans-serif'

/** Draw figures over time into an element. */
export function plot(target: HTMLElement, first: Figures, setup: Setup): Plot {
  let figures = first
  const drawn = new UPlot(options(() => figures, setup), dataOf(figures), target)
  const unfollow = followTouch(drawn)
  return {
    put(next) {
      figures = next
      drawn.setData(dataOf(next))
    },
    resize: (width) => drawn.setSize({ width, height: heightWith(setup) }),
    paint: () => drawn.redraw(false, true),
    remove() {
      unfollow()
      drawn.destroy()
    },
  }
}

const heightWith = (setup: Setup): number => setup.height + (setup.clock ? CLOCK : 0)
/** The value of the last interval is repeated at its end, so that it is as wide as the others. */
const dataOf = ({ times, series, until }: Figures): AlignedData => (until === undefined
  ? [[...times], ...series.map((one) => [...one.values])]
  : [[...times, until], ...series.map((one) => [...one.values, one.values.at(-1) ?? null])])

function options(current: () => Figures, setup: Setup): Options {
  const { unit } = setup
  const quiet = (): string => colourOf('quiet')
  const line = (): string => colourOf('line')
  const pointed = (drawn: UPlot): number | null => {
    const { idx, left } = drawn.cursor
    if (idx === null || idx === undefined) return null
    const { times, until } = current()
    return until === undefined || left === undefined ? idx : intervalAt(times, drawn.posToVal(left, 'x'))
  }
  return {
    width: setup.width,
    height: heightWith(setup),
    ms: 1,
    padding: [6, RIGHT, setup.clock ? 0 : 6, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 9, show: current().until === undefined }, sync: { key: setup.together, setSeries: false } },
    scales: { x: { range: () => spanOf(current().times, current().until) }, y: { range: () => heightOf(current().series) } },
    axes: [
      {
        show: setup.clock, size: CLOCK, space: 90, font: FONT, stroke: quiet, grid: { show: false }, ticks: { stroke: line, width: 1, size: 4 }, gap: 4,
        values: (_plot, times, _axis, _space, apart) => clocks(times, apart),
      },
      {
        size: SIDE, space: 24, font: FONT, stroke: quiet, incrs: [...unit.steps], gap: 6, grid: { stroke: line, width: 1 }, ticks: { show: false },
        values: (_plot, values) => values.map(unit.tick),
      },
    ],
    series: [{}, ...current().series.map((one) => styleOf(one))],
    hooks: {
      draw: [(drawn) => drawCrosses(drawn, current().series)],
      setCursor: [(drawn) => setup.onPoint(pointed(drawn))],
    },
  }
}

function styleOf(one: Series): UPlot.Series {
  const accent = (): string => colourOf('accent')
  if (one.kind === 'crosses') return { stroke: () => colourOf('state-failing'), paths: () => null, points: { show: false } }
  if (one.compared !== undefined) {
    const before = one.compared.side === 'before'
    return {
      stroke: before ? () => colourOf('quiet') : accent,
      width: 2,
      ...(before ? { dash: [5, 3] } : {}),
      // A gap begins where the interval before it ends, so that an interval between two gaps is seen.
      paths: UPlot.paths.stepped!({ align: 1, alignGaps: 1 }),
      points: { show: false },
    }
  }
  return {
    stroke: accent,
    width: 2,
    spanGaps: true,
    ...(one.kind === 'steps' ? { paths: UPlot.paths.stepped!({ align: 1 }) } : {}),
    points: { size: 6, fill: accent, stroke: accent },
  }
}

/** Draw the marks of failures: a shape of their own, so that they stand out without a colour. */
function drawCrosses(drawn: UPlot, series: readonly Series[]): void {
  const { colour, mark } = look('failed')
  const { ctx: context } = drawn
  const density = globalThis.devicePixelRatio || 1
  for (const [index, one] of series.entries()) {
    if (one.kind !== 'crosses') continue
    const cross = new Path2D(mark)
    for (const [at, value] of (drawn.data[index + 1] ?? []).entries()) {
      if (value === null || value === undefined) continue
      context.save()
      context.translate(drawn.valToPos(drawn.data[0][at]!, 'x', true), drawn.valToPos(value, 'y', true))
      context.scale(density, density)
      context.translate(-8, -8)
      context.lineCap = 'round'
      // A border of the background keeps the mark apart from the line.
      for (const [style, width] of [[colourOf('panel'), 5], [colourOf(`state-${colour}`), 2.2]] as const) {
        context.strokeStyle = style
        context.lineWidth = width
        context.stroke(cross)
      }
      context.restore()
    }
  }
}

/** A finger moves the cursor too; it scrolls the page up and down as elsewhere. */
function followTouch(drawn: UPlot): () => void {
  const { over } = drawn
  const move = (event: PointerEvent): void => {
    if (event.pointerType === 'mouse') return
    const box = over.getBoundingClientRect()
    drawn.setCursor({ left: event.clientX - box.left, top: event.clientY - box.top })
  }
  over.addEventListener('pointerdown', move)
  over.addEventListener('pointermove', move)
  return () => {
    over.removeEventListener('pointerdown', move)
    over.removeEventListener('pointermove', move)
  }
}
