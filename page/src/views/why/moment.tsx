import { useRef } from 'preact/hooks'
import { Copy } from '../../parts/cli'
import { href, setQuery } from '../../router'
import { fromField, now, toField } from '../../time'
import type { WhyData } from './data'

/** Which time, and which partition; and a link to send, which holds both. */
export function Moment({ id, at, partition, data }: { id: string; at: string; partition: string; data: WhyData | null }) {
  const time = useRef<HTMLInputElement>(null)
  const key = useRef<HTMLInputElement>(null)
  const parsed = Date.parse(at)
  // A link without a time would say something else tomorrow.
  const moment = at || new Date(now.value).toISOString()
  const link = new URL(href(['why', id], { at: moment, partition: data?.partitionKey || partition }), document.baseURI).href
  return (
    <form class="filters why-moment" aria-label="Time and partition" onSubmit={(event) => {
      event.preventDefault()
      setQuery({ at: fromField(time.current?.value ?? '') ?? '', partition: key.current?.value.trim() ?? partition }, { push: true })
    }}>
      <label>
        <span>At (empty: now)</span>
        <input ref={time} key={at} type="datetime-local" step={1} defaultValue={Number.isNaN(parsed) ? '' : toSeconds(parsed)} />
      </label>
      {data?.asset?.partitions || partition !== '' ? (
        <label>
          <span>Partition</span>
          <input ref={key} key={partition} type="text" defaultValue={partition} placeholder={data?.partitionKey ?? ''} autocomplete="off" />
        </label>
      ) : null}
      <button type="submit">Explain</button>
      {at === '' ? null : <button type="button" onClick={() => setQuery({ at: '' }, { push: true })}>Now</button>}
      <Copy text={link} label="Copy link to this answer" caption="Copy link" />
    </form>
  )
}

/** Return the value of the field to the second. */
function toSeconds(time: number): string {
  return `${toField(time)}:${String(new Date(time).getSeconds()).padStart(2, '0')}`
}
