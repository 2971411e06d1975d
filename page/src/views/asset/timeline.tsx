import { bytes, visible } from '../../format'
import { Chart } from '../../parts/chart'
import { drawable, RIGHT, ROWS, SIDE, size, TIME, type Series, type Unit } from '../../parts/chart-figures'
import { useWidth } from '../../parts/width'
import { look } from '../../states'
import { absolute, local } from '../../time'

/** Something that happened to an asset: a version, or a run that failed. */
export interface Moment {
  readonly id: string
  readonly kind: 'changed' | 'identical' | 'failed'
  readonly at: string
  readonly text: string
  readonly rows: number | null
  readonly bytes: number | null
  /** How long the run took, in milliseconds. */
  readonly took: number | null
  /** The version to compare, if it is one. */
  readonly version: number | null
}

const LANES = ['changed', 'identical', 'failed'] as const
const LANE = 22
const BYTES = size(bytes)

/** Versions and failures over time, and below them how large they are and how long their runs took. The list says the same. */
export function Timeline({ name, moments, chosen, onChoose }: {
  name: string
  moments: readonly Moment[]
  chosen: readonly number[]
  onChoose: (version: number) => void
}) {
  const { box, width } = useWidth()
  const times = moments.map((one) => Date.parse(one.at))
  const [first, last] = [Math.min(...times), Math.max(...times)]
  const x = (at: number): number => SIDE + (last === first ? 0.5 : (at - first) / (last - first)) * Math.max(0, width - SIDE - RIGHT)
  const charts = chartsOf(moments)
  const top = LANES.length * LANE + 2
  const height = top + (charts.length > 0 ? 0 : 22)
  const said = LANES.map((lane) => `${moments.filter((one) => one.kind === lane).length} ${lane}`).join(', ')
  return (
    <div ref={box} class="timeline">
      {width === 0 ? null : (
        <svg width={width} height={height} role="img" aria-label={`Versions over time: ${said}`}>
          {LANES.map((lane, index) => (
            <g key={lane}>
              <text class="timeline-label" x={0} y={index * LANE + 16}>{lane}</text>
              <line class="timeline-line" x1={SIDE} x2={width - 8} y1={index * LANE + 12} y2={index * LANE + 12} />
            </g>
          ))}
          {moments.map((one) => (
            <Mark key={one.id} moment={one} x={x(Date.parse(one.at))} y={LANES.indexOf(one.kind) * LANE + 12}
              chosen={one.version !== null && chosen.includes(one.version)} onChoose={onChoose} />
          ))}
          {charts.length > 0 ? null : <text class="timeline-label" x={SIDE} y={height - 4}>{local(new Date(first).toISOString())}</text>}
          {charts.length > 0 || last === first ? null : <text class="timeline-label" x={width - 8} y={height - 4} text-anchor="end">{local(new Date(last).toISOString())}</text>}
        </svg>
      )}
      <div class="charts">
        {charts.map(({ label, unit, series }, index) => (
          <Chart key={label} label={label} unit={unit} series={series} times={sorted(times)} together={name} clock={index === charts.length - 1} />
        ))}
      </div>
    </div>
  )
}

const sorted = (times: readonly number[]): number[] => [...times].sort((a, b) => a - b)

/** Return the charts for which there are figures. Their times are those of all moments, so that they are below each other. */
export function chartsOf(moments: readonly Moment[]): { label: string; unit: Unit; series: readonly Series[] }[] {
  const ordered = [...moments].sort((a, b) => Date.parse(a.at) - Date.parse(b.at))
  const values = (of: (one: Moment) => number | null): (number | null)[] => ordered.map(of)
  const versions = ['version', 'versions'] as const
  const all: { label: string; unit: Unit; series: readonly Series[] }[] = [
    { label: 'Rows', unit: ROWS, series: [{ name: versions, kind: 'steps', values: values((one) => one.rows) }] },
    { label: 'Size', unit: BYTES, series: [{ name: versions, kind: 'steps', values: values((one) => one.bytes) }] },
    { label: 'Run time', unit: TIME, series: [
      { name: ['succeeded', 'succeeded'], kind: 'line', values: values((one) => (one.kind === 'failed' ? null : one.took)) },
      { name: ['failed', 'failed'], kind: 'crosses', values: values((one) => (one.kind === 'failed' ? one.took : null)) },
    ] },
  ]
  return all.filter((one) => drawable(one.series))
}

function Mark({ moment, x, y, chosen, onChoose }: {
  moment: Moment
  x: number
  y: number
  chosen: boolean
  onChoose: (version: number) => void
}) {
  const { colour, mark } = look(moment.kind)
  const { version } = moment
  return (
    <g class={`timeline-mark state-${colour}${chosen ? ' chosen' : ''}`} transform={`translate(${x - 7}, ${y - 7}) scale(0.875)`}
      {...(version === null ? {} : { onClick: () => onChoose(version) })}>
      <title>{`${visible(moment.text)}, ${absolute(moment.at)}`}</title>
      <rect x="0.5" y="0.5" width="15" height="15" rx="4" />
      <path d={mark} />
    </g>
  )
}
