import { useMemo } from 'preact/hooks'
import { counted, quote, visible } from '../../format'
import { about, useLoad } from '../../load'
import { Body, Empty, Panel, Shares } from '../../parts/basics'
import { Heatmap } from '../../parts/heatmap'
import type { Selected } from '../../parts/heatmap-select'
import { between, cellsOf, cellText, countsText, countStates, type Cells } from '../../parts/partition-cells'
import { readPartitions } from '../../parts/partition-data'
import { RangeTable } from '../../parts/partition-table'
import { href, route, setQuery } from '../../router'
import { may } from '../../session'
import { PARTITION_STATES } from '../../states'
import type { Asset, AssetPartitions } from '../../types'
import type { AssetData } from './data'

/** The states of all partitions: a heat map with a selection for a backfill, and a table. */
export function Partitions({ data }: { data: AssetData }) {
  const { asset } = data
  const loaded = useLoad(`partitions ${asset.assetId}`, (stop) => readPartitions(asset.assetId, stop),
    { events: about(asset.assetId, asset.workflowSlug), everyMs: 20_000, enabled: asset.partitions !== null })
  if (asset.partitions === null) return <NotPartitioned />
  return <Body from={loaded} lines={6}>{(found) => <Map found={found} asset={asset} />}</Body>
}

function Map({ found, asset }: { found: AssetPartitions; asset: Asset }) {
  const cells = useMemo(() => cellsOf(found.items, found), [found])
  const selected = selectionOf(cells)
  const select = (wanted: Selected | null): void => {
    setQuery({ from: wanted === null ? '' : nameOf(cells, wanted[0]), to: wanted === null ? '' : nameOf(cells, wanted[1]) })
  }
  if (found.total === 0) return <NoPartitions />
  return (
    <>
      <Panel title={countsText(found.counts, found.total)} note={found.newest === null ? undefined : <>the newest is <code>{visible(found.newest)}</code></>}>
        <Shares label="Partitions" total={found.total} counts={PARTITION_STATES.map((state) => [state, found.counts[state] ?? 0] as const)} />
        {found.next === null ? null : <p class="banner banner-warn">Only the newest {counted(cells.total, 'partition')} are shown.</p>}
        <Heatmap cells={cells} label={`Partitions of ${asset.assetId}`} selected={selected} onSelect={select} />
        <p class="hint">
          Drag over the cells, or use the arrow keys with <kbd>Shift</kbd>, to select{' '}
          {cells.grain === null ? 'partitions' : 'a range'}. <kbd>Esc</kbd> ends the selection.
        </p>
      </Panel>
      <SelectionBar cells={cells} selected={selected} asset={asset} clear={() => select(null)} />
      <Panel title="As a table" note="equal states in a row are one line"><RangeTable cells={cells} label="States of partitions" /></Panel>
    </>
  )
}

/** A selection is in the address by the keys of its ends, or by their places if they have no known keys. */
function nameOf(cells: Cells, index: number): string {
  return cells.keyOf(index) ?? `#${index}`
}

function selectionOf(cells: Cells): Selected | null {
  const { from = '', to = '' } = route.value.query
  const [first, last] = [from, to].map((text) => (/^#\d+$/.test(text) ? Number(text.slice(1)) : cells.indexOf(text))) as [number, number]
  return from === '' || to === '' || first < 0 || last < 0 || Math.max(first, last) >= cells.total ? null : between(first, last)
}

const MOST_KEYS = 500

/** What is selected, and what can be done with it. */
function SelectionBar({ cells, selected, asset, clear }: { cells: Cells; selected: Selected | null; asset: Asset; clear: () => void }) {
  if (selected === null) return null
  const [first, last] = selected
  const size = last - first + 1
  const key = cells.keyOf(first)
  const keys = cells.grain !== null || size > MOST_KEYS ? [] : Array.from({ length: size }, (_, offset) => cells.keyOf(first + offset))
  const known = cells.grain !== null || (keys.length === size && !keys.includes(null))
  const target = cells.grain === null ? { keys: keys.join(',') } : { from: key, to: cells.keyOf(last) }
  return (
    <div class="banner banner-info" role="status">
      <span>
        {size === 1 ? cellText(cells, first)
          : (
            <>
              {cells.grain === null ? counted(size, 'partition')
                : <><code>{visible(key ?? '')}</code> to <code>{visible(cells.keyOf(last) ?? '')}</code></>}
              : {countsText(countStates(cells, first, last), size)}
            </>
          )}
      </span>
      <span class="row">
        {size === 1 && key !== null ? (
          <>
            <a class="button small" href={href(['assets', asset.assetId], { partition: key })}>Open</a>
            {asset.workflowSlug === null ? null : <a class="button small" href={href(['why', asset.assetId], { partition: key })}>Why?</a>}
          </>
        ) : null}
        {asset.workflowSlug === null || !may('operate') ? null : known
          ? <a class="button small primary" href={href(['backfills'], { new: 1, asset: asset.assetId, ...target })}>Backfill this selection…</a>
          : <span class="quiet">The keys within this selection are not known here: <code>freshline backfill {quote(asset.assetId)} --keys …</code></span>}
        <button type="button" class="small" onClick={clear}>Clear</button>
      </span>
    </div>
  )
}

function NoPartitions() {
  return (
    <Empty title="No partition exists yet.">
      <p>A partition by time exists when its window has ended; dynamic keys exist when they were reported.</p>
    </Empty>
  )
}

function NotPartitioned() {
  return (
    <Empty title="This asset has no partitions.">
      <p>With <code>partitioning</code> at its output it is computed in parts, such as days, and a late day runs only what reads it.</p>
      <pre class="box">{'partitioning: { time: day, start: 2024-01-01 }'}</pre>
    </Empty>
  )
}
