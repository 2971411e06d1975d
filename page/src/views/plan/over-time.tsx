import { Panel } from '../../parts/basics'
import { Chart } from '../../parts/chart'
import { RUNS, TIME, type Series, type Unit } from '../../parts/chart-figures'
import { duration } from '../../time'
import type { Simulation, SimulationSeries } from '../../types'

export interface SimulatedChart {
  readonly label: string
  readonly unit: Unit
  readonly series: readonly Series[]
}

type Pick = readonly [label: string, unit: Unit, of: (series: SimulationSeries) => readonly (number | null)[]]
const HOUR = 3_600_000
const PICKS: readonly Pick[] = [
  ['Runs', RUNS, (one) => one.runs],
  ['Time of runs', TIME, (one) => one.slotHours.map((hours) => hours * HOUR)],
  ['Lag, median', TIME, (one) => one.lagSeconds.map((lag) => (lag === null ? null : lag.p50 * 1000))],
  ['Lag, p95', TIME, (one) => one.lagSeconds.map((lag) => (lag === null ? null : lag.p95 * 1000))],
]

/** Return the charts of an answer: each has what is applied, and what was asked. */
export function chartsOf({ before, after }: Simulation): SimulatedChart[] {
  const side = (series: SimulationSeries, of: Pick[2], which: 'before' | 'after', label: string): Series =>
    ({ name: [`interval ${label}`, `intervals ${label}`], kind: 'steps', values: of(series), compared: { side: which, label } })
  return PICKS.map(([label, unit, of]) => ({
    label, unit,
    series: [side(before.series, of, 'before', 'as applied'), ...(after === null ? [] : [side(after.series, of, 'after', 'with the change')])],
  }))
}

/** Return the starts of the buckets, and the end of the last one. */
export function timesOf({ start, end, before: { series } }: Simulation): { times: number[]; until: number } {
  const first = Date.parse(start)
  return { times: series.runs.map((_, index) => first + index * series.bucketSeconds * 1000), until: Date.parse(end) }
}

/** When it runs, what that costs, and how late it is, over the time that was played. */
export function OverTime({ answer }: { answer: Simulation }) {
  const { times, until } = timesOf(answer)
  if (answer.reports === 0 || times.at(-1)! >= until) return null
  const charts = chartsOf(answer)
  const length = duration(answer.before.series.bucketSeconds * 1000)
  return (
    <Panel title="Over time" note={`in intervals of ${length}`}>
      <p class="legend"><span class="legend-line">as applied</span>{answer.after === null ? null : <span class="legend-line legend-line-after">with the change</span>}</p>
      <div class="charts">
        {charts.map((one, index) => (
          <Chart key={one.label} {...one} times={times} until={until} together="simulation" clock={index === charts.length - 1} />
        ))}
      </div>
      <p class="hint">A run is where it started. A lag is where its change happened, so each interval has the same changes on both lines; what has not arrived yet counts until the end.</p>
    </Panel>
  )
}
