import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { dark } from '../theme'
import { local } from '../time'
import { CLOCK, drawable, lastKnown, reading, summary, type Series, type Unit } from './chart-figures'
import type { Plot } from './chart-plot'
import { useWidth } from './width'
import './chart.css'

/**
 * Figures over time as a line. Above it is the value under the cursor, else the last one.
 *
 * uPlot is loaded with the first chart. Where nothing is known, nothing is drawn. A table or list beside it has the
 * numbers; a screen reader hears the least, the most and the last.
 */
export function Chart({ label, times, series, unit, height = 84, clock = true, together = label, until }: {
  label: string
  /** In milliseconds, ascending. */
  times: readonly number[]
  /** Each with a value, or null, for each of the times. */
  series: readonly Series[]
  unit: Unit
  height?: number
  /** Whether the times are written below it. */
  clock?: boolean
  /** Charts with the same name show the value at the same time. */
  together?: string
  /** The times are the starts of intervals, and the last one ends here. */
  until?: number | undefined
}) {
  return drawable(series) ? <Drawn {...{ label, times, series, unit, height, clock, together, until }} /> : null
}

type Known = Required<Omit<Parameters<typeof Chart>[0], 'until'>> & { readonly until: number | undefined }

function Drawn({ label, times, series, unit, height, clock, together, until }: Known) {
  const { box, width } = useWidth()
  const place = useRef<HTMLDivElement>(null)
  const made = useRef<Plot | null>(null)
  const point = useSignal<number | null>(null)
  const latest = useRef({ times, series, until })
  latest.current = { times, series, until }
  const known = width > 0
  const shape = series.map((one) => one.kind).join()

  useEffect(() => {
    if (!known) return
    let gone = false
    void import('./chart-plot').then(({ plot }) => {
      if (gone || place.current === null || box.current === null) return
      const onPoint = (index: number | null): void => {
        point.value = index
      }
      made.current = plot(place.current, latest.current, { unit, width: Math.floor(box.current.clientWidth), height, clock, together, onPoint })
    }).catch(() => undefined) // The numbers are beside it.
    return () => {
      gone = true
      made.current?.remove()
      made.current = null
    }
  }, [known, unit, height, clock, together, shape])
  const content = JSON.stringify([times, series, until])
  useEffect(() => made.current?.put(latest.current), [content])
  useEffect(() => {
    if (width > 0) made.current?.resize(width)
  }, [width])
  useEffect(() => made.current?.paint(), [dark.value])

  const pointed = point.value !== null && reading(series, unit, point.value) !== '' ? point.value : null
  const shown = pointed ?? lastKnown(series)
  return (
    <div class="chart">
      <p class="chart-head">
        <span class="chart-name">{label}</span>
        <span class="chart-value number">{reading(series, unit, shown)}</span>
        <span class="quiet">{pointed === null ? 'last' : until === undefined ? 'at' : 'from'} {local(new Date(times[shown]!).toISOString())}</span>
      </p>
      <div ref={box} class="chart-box" role="img" aria-label={summary(label, series, unit)} style={{ minHeight: `${height + (clock ? CLOCK : 0)}px` }}>
        <div ref={place} aria-hidden="true" />
      </div>
    </div>
  )
}
