import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { State, Time } from '../../parts/basics'
import { visible } from '../../format'
import { detailsOf, sinceOf, type Details } from './details'

export interface Hovered {
  readonly id: string
  readonly state: string
  readonly x: number
  readonly y: number
}

const WAIT_MS = 200

/** What is under the pointer. The panel of the focused asset says more and has links. */
export function HoverCard({ hovered, width, height }: { hovered: Hovered; width: number; height: number }) {
  const details = useSignal<Details | null>(null)
  useEffect(() => {
    details.value = null
    let ended = false
    const timer = setTimeout(() => {
      detailsOf(hovered.id).then((found) => {
        if (!ended) details.value = found
      }, () => undefined)
    }, WAIT_MS)
    return () => {
      ended = true
      clearTimeout(timer)
    }
  }, [hovered.id])
  const since = details.value === null ? null : sinceOf(details.value)
  const left = Math.max(8, Math.min(hovered.x, width - 328))
  const below = hovered.y + 130 < height
  return (
    <div
      class="graph-hover" aria-hidden="true"
      style={below ? { left: `${left}px`, top: `${hovered.y + 8}px` } : { left: `${left}px`, bottom: `${height - hovered.y + 40}px` }}
    >
      <span class="mono">{visible(hovered.id)}</span>
      <span class="row">
        <State of={hovered.state} />
        {since === null ? null : <span class="quiet">{since.word} <Time at={since.at} /></span>}
      </span>
      {details.value?.decision?.sentence === undefined ? null
        : <span class="quiet graph-sentence">{visible(details.value.decision.sentence)}</span>}
    </div>
  )
}
