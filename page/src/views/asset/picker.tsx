import { useRef } from 'preact/hooks'
import { visible } from '../../format'
import { setQuery } from '../../router'
import type { Asset } from '../../types'

/** Chooses a partition by its key. Without one, a part of the view is about the newest. */
export function PartitionPicker({ asset, partition }: { asset: Asset; partition: string }) {
  const field = useRef<HTMLInputElement>(null)
  if (asset.partitions === null) return null
  return (
    <form class="row partition-picker" onSubmit={(event) => {
      event.preventDefault()
      setQuery({ partition: field.current?.value.trim() ?? '', a: '', b: '' }, { push: true })
    }}>
      <label for="partition-picker">Partition</label>
      <input id="partition-picker" key={partition} ref={field} type="text" defaultValue={partition} placeholder={visible(asset.partitionKey)} autocomplete="off" />
      <button type="submit">Show</button>
      {partition === '' ? <span class="quiet">The newest is shown.</span>
        : <button type="button" class="small" onClick={() => setQuery({ partition: '', a: '', b: '' })}>The newest</button>}
    </form>
  )
}

/** The partition that a part of the view is about: the chosen one, else the newest; null for an asset without any. */
export const keyOf = (asset: Asset, partition: string): string | null =>
  asset.partitions === null ? null : partition || asset.partitionKey
