import { now } from '../time'
import { Time } from './basics'

/** When something is done next. What is due already is done by the next process that is free, so no time in the past. */
export function Due({ at }: { at: string | null }) {
  if (at !== null && Date.parse(at) <= now.value) return <span class="nowrap" title={`It is due since ${at}: the next process that is free does it.`}>due now</span>
  return <Time at={at} />
}
