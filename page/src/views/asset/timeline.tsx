import { count, visible } from '../../format'
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
  /** The version to compare, if it is one. */
  readonly version: number | null
}

const LANES = ['changed', 'identical', 'failed'] as const
const SIDE = 72
const LANE = 22
const CHART = 56

/** Versions and failures over time, and the number of rows below them. The list beside it says the same. */
export function Timeline({ moments, chosen, onChoose }: {
  moments: readonly Moment[]
  chosen: readonly number[]
  onChoose: (version: number) => void
}) {
  const { box, width } = useWidth()
  const times = moments.map((one) => Date.parse(one.at))
  const [first, last] = [Math.min(...times), Math.max(...times)]
  const x = (at: number): number => SIDE + (last === first ? 0.5 : (at - first) / (last - first)) * Math.max(0, width - SIDE - 16)
  const sized = moments.flatMap((one) => (one.rows === null ? [] : [{ at: Date.parse(one.at), rows: one.rows }]))
    .sort((a, b) => a.at - b.at)
  const top = LANES.length * LANE + 8
  const height = top + (sized.length > 1 ? CHART : 0) + 18
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
          {sized.length > 1 ? <RowLine points={sized} x={x} top={top} width={width} /> : null}
          <text class="timeline-label" x={SIDE} y={height - 4}>{local(new Date(first).toISOString())}</text>
          {last === first ? null : <text class="timeline-label" x={width - 8} y={height - 4} text-anchor="end">{local(new Date(last).toISOString())}</text>}
        </svg>
      )}
    </div>
  )
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

/** The number of rows as steps: it stays the same until the next version. */
function RowLine({ points, x, top, width }: {
  points: readonly { at: number; rows: number }[]
  x: (at: number) => number
  top: number
  width: number
}) {
  const most = Math.max(1, ...points.map((one) => one.rows))
  const y = (rows: number): number => top + CHART - 4 - (rows / most) * (CHART - 12)
  const path = points.map((one, index) => (index === 0 ? `M${x(one.at)} ${y(one.rows)}` : `H${x(one.at)}V${y(one.rows)}`)).join('')
  return (
    <g>
      <text class="timeline-label" x={0} y={top + 12}>rows</text>
      <text class="timeline-label" x={0} y={top + 28}>{most >= 1_000_000 ? `${(most / 1_000_000).toFixed(1)} M` : count(most)}</text>
      <line class="timeline-line" x1={SIDE} x2={width - 8} y1={top + CHART - 4} y2={top + CHART - 4} />
      <path class="timeline-rows" d={path} />
    </g>
  )
}
