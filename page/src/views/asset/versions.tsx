import { get, segment } from '../../api'
import { bytes, count, rows, short, visible } from '../../format'
import { useListing } from '../../listing'
import { about, useLoad } from '../../load'
import { Empty, Panel, RunLink, State, Time } from '../../parts/basics'
import { Version } from '../../parts/evidence'
import { ListingTable, type Column } from '../../parts/table'
import { href, route, setQuery } from '../../router'
import { between } from '../../time'
import type { Page, Run, Snapshot } from '../../types'
import { Compare } from './compare'
import type { AssetData } from './data'
import { differenceText } from './difference'
import { keyOf, PartitionPicker } from './picker'
import { Timeline, type Moment } from './timeline'

/** The versions of an asset, or of one partition, over time and as a list; two of them compared. */
export function Versions({ data, partition }: { data: AssetData; partition: string }) {
  const { asset } = data
  const key = keyOf(asset, partition)
  const concerns = about(asset.assetId, asset.workflowSlug)
  const listing = useListing<Snapshot>(
    `assets/${segment(asset.assetId)}/history`, { partitionKey: key }, (one) => String(one.version), { events: concerns, limit: 50 },
  )
  const runs = useLoad(`runs ${asset.assetId} ${key}`, (stop) => (asset.workflowSlug === null ? Promise.resolve([])
    : get<Page<Run>>('runs', { asset: asset.assetId, partitionKey: key, limit: 100 }, stop).then((page) => page.items)), { events: concerns })
  const shown = listing.items ?? []
  const pair = chosen(shown)
  const oldest = shown.at(-1)?.producedAt ?? ''
  const moments = [
    ...shown.map((one) => momentOf(one, runs.data?.find((run) => run.id === one.runId))),
    // Failures before the oldest version that is shown would stretch the picture.
    ...(runs.data ?? []).filter((run) => run.status === 'failed' && (!listing.more || (run.finishedAt ?? run.queuedAt) >= oldest)).map(failureOf),
  ]
  return (
    <>
      <PartitionPicker asset={asset} partition={partition} />
      {moments.length > 1 ? (
        <Panel title="Over time" note="newest on the right">
          <Timeline name={`${asset.assetId}@${key}`} moments={moments} chosen={pair.map((one) => one.version)} onChoose={(version) => choose(version, shown)} />
        </Panel>
      ) : null}
      {pair.length === 2 ? <Compare older={pair[0]!} newer={pair[1]!} /> : null}
      <Panel title="Versions" note="choose two to compare them">
        <ListingTable listing={listing} label="Versions" id={(one) => `${one.partitionKey} ${one.version}`}
          columns={columnsOf(asset.assetId, shown, pair.map((one) => one.version))}
          empty={<Nothing data={data} />} />
      </Panel>
    </>
  )
}

function momentOf(one: Snapshot, run: Run | undefined): Moment {
  return {
    id: `version ${one.version}`, kind: one.changed ? 'changed' : 'identical', at: one.producedAt, version: one.version,
    rows: one.rows, bytes: one.bytes, took: run === undefined ? null : between(run.startedAt, run.finishedAt),
    text: `version ${one.version}: ${one.changed ? 'changed' : 'identical'}${one.rows === null ? '' : `, ${count(one.rows)} rows`}`,
  }
}

function failureOf(run: Run): Moment {
  return {
    id: run.id, kind: 'failed', at: run.finishedAt ?? run.queuedAt, version: null,
    rows: null, bytes: null, took: between(run.startedAt, run.finishedAt),
    text: `run ${short(run.id)} failed: ${(run.error?.message ?? '').split('\n')[0]}`,
  }
}

/** The two versions to compare, the older one first: those of the address, else none. */
function chosen(shown: readonly Snapshot[]): Snapshot[] {
  const { a = '', b = '' } = route.value.query
  const found = [a, b].map((text) => shown.find((one) => String(one.version) === text))
  return found.filter((one): one is Snapshot => one !== undefined).sort((one, other) => one.version - other.version)
}

/** Choose a version: the first click takes it and the one before, later ones replace the one chosen longer ago. */
function choose(version: number, shown: readonly Snapshot[]): void {
  const { a = '', b = '' } = route.value.query
  const text = String(version)
  if (text === a || text === b) setQuery({ a: text === a ? '' : a, b: text === b ? '' : b })
  else if (a === '' && b === '') {
    const before = shown[shown.findIndex((one) => one.version === version) + 1]
    setQuery({ a: before === undefined ? '' : String(before.version), b: text })
  } else setQuery({ a: b === '' ? a : b, b: text })
}

function columnsOf(assetId: string, shown: readonly Snapshot[], pair: readonly number[]): readonly Column<Snapshot>[] {
  return [
    { title: 'Compare', cell: (one) => (
      <input type="checkbox" aria-label={`Compare version ${one.version}`} checked={pair.includes(one.version)} onChange={() => choose(one.version, shown)} />) },
    { title: 'Version', cell: (one) => <span>{one.version}{one.head ? <> <span class="badge">current</span></> : null}</span> },
    { title: 'What', cell: (one) => <State of={one.changed ? 'changed' : 'identical'} /> },
    { title: 'Produced', cell: (one) => <Time at={one.producedAt} clock /> },
    { title: 'Data version', cell: (one) => <Version of={one.dataVersion} />, extra: true },
    { title: 'Rows', number: true, cell: (one) => rows(one.rows) },
    { title: 'Size', number: true, extra: true, cell: (one) => bytes(one.bytes) },
    { title: 'Run', cell: (one) => <RunLink id={one.runId} /> },
    { title: 'Checks', cell: (one) => <CheckCount snapshot={one} /> },
    { title: 'Difference from the one before', wide: true, cell: (one) => <span class="quiet">{(one.changed ? differenceText(one.difference) : '') || '–'}</span> },
    { title: 'Data', cell: (one) => (one.goneAt === null
      ? <a href={href(['assets', assetId], { tab: 'rows', version: one.partitionKey === '' ? one.version : one.tableVersion ?? '', partition: one.partitionKey })} class="nowrap" aria-label={`Rows of version ${one.version}`}>rows</a>
      : <span class="quiet">removed</span>) },
  ]
}

function CheckCount({ snapshot }: { snapshot: Snapshot }) {
  const all = snapshot.checks ?? []
  if (all.length === 0) return <span class="quiet">–</span>
  const bad = all.filter((one) => !one.passed)
  return bad.length === 0 ? <State of="passed" label={`${all.length} passed`} />
    : <State of="stale" label={`${bad.length} of ${all.length} failed`} />
}

function Nothing({ data: { asset } }: { data: AssetData }) {
  return (
    <Empty title={`${visible(asset.assetId)} has no version yet.`}>
      <p>{asset.workflowSlug === null
        ? <>Each report of the source is one: <code>freshline report {visible(asset.assetId)}</code></>
        : (
          <>
            Each successful run of {visible(asset.workflowSlug)} publishes one. A version whose content equals the one
            before is recorded as identical, and wakes nobody.
          </>
        )}</p>
    </Empty>
  )
}
