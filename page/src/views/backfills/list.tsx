import { useRef } from 'preact/hooks'
import { get, segment } from '../../api'
import { count, counted, quote, short, visible } from '../../format'
import { useListing } from '../../listing'
import { ofType, useLoad } from '../../load'
import { AssetLink, Bar, Empty, Failed, Heading, Panel, Skeleton, State, Time } from '../../parts/basics'
import { Cli } from '../../parts/cli'
import { Filters } from '../../parts/filters'
import { ListingTable, type Column } from '../../parts/table'
import { href, route } from '../../router'
import { may } from '../../session'
import { duration } from '../../time'
import type { Backfill, BackfillDetail, Page } from '../../types'
import { Proposal } from './proposal'
import { progressText, share } from './text'

const STATUSES = ['proposed', 'active', 'paused', 'finished', 'canceled', 'denied'] as const
const MOST_PROPOSALS = 10

/** All backfills, the newest first; before them the proposals that wait for an answer. */
export function BackfillList() {
  const { status = '', asset = '' } = route.value.query
  const listing = useListing<Backfill>('backfills', { status, asset }, (one) => one.id, { events: ofType('backfill.'), everyMs: 5000 })
  const proposals = useLoad(`proposals ${asset}`, async (stop) => {
    const found = await get<Page<Backfill>>('backfills', { status: 'proposed', asset, limit: MOST_PROPOSALS }, stop)
    // What a proposal costs is only in its own document.
    return Promise.all(found.items.map((one) => get<BackfillDetail>(`backfills/${segment(one.id)}`, {}, stop)))
  }, { events: ofType('backfill.'), everyMs: 15_000 })
  const waiting = (proposals.data ?? []).filter((one) => one.status === 'proposed')
  // The proposals are above the list: it would move while somebody reads it.
  const ready = useRef(false)
  ready.current ||= proposals.data !== null || proposals.error !== null
  const reload = (): void => {
    proposals.reload()
    listing.reload()
  }
  return (
    <>
      <Heading title="Backfills" actions={may('operate') ? <a class="button primary" href={href(['backfills'], { new: 1, asset })}>New backfill…</a> : undefined} />
      {ready.current ? null : <Skeleton lines={6} />}
      {proposals.error === null ? null : <Failed error={proposals.error} retry={proposals.reload} />}
      {waiting.length === 0 ? null : (
        <section class="stack" aria-label="Proposals">
          <h2>{counted(waiting.length, 'proposal')} {waiting.length === 1 ? 'waits' : 'wait'} for an answer</h2>
          {waiting.map((one) => <Proposal key={one.id} proposal={one} done={reload} />)}
        </section>
      )}
      {ready.current ? <Filters filters={[
        { name: 'status', label: 'Status', options: [['', 'all'], ...STATUSES.map((one) => [one, one] as const)] },
        { name: 'asset', label: 'Asset', placeholder: 'its whole id' },
      ]} /> : null}
      {ready.current ? <Panel title="Requests"><ListingTable listing={listing} columns={COLUMNS} id={(one) => one.id} label="Backfills" empty={<None filtered={status !== '' || asset !== ''} />} /></Panel> : null}
      <Cli command={`freshline backfill list --all${asset === '' ? '' : ` --asset ${quote(asset)}`}`} />
    </>
  )
}

const COLUMNS: readonly Column<Backfill>[] = [
  { title: 'Backfill', cell: (one) => <a class="id" href={href(['backfills', one.id])}>{short(one.id)}</a> },
  { title: 'Asset', cell: (one) => <AssetLink id={one.assetId} tab="partitions" /> },
  { title: 'Status', cell: (one) => <State of={one.status} /> },
  { title: 'Done', wide: true, cell: (one) => (one.status === 'proposed' ? <>{counted(one.progress.total, 'partition')}, if it is approved</> : (
    <div class="backfill-share">
      <Bar value={share(one.progress)} of={1} label={`Progress of backfill ${short(one.id)}`} />
      <span class="quiet">{progressText(one.progress, one.endedAt !== null)}</span>
    </div>)) },
  { title: 'Failed', number: true, cell: (one) => {
    const failed = one.progress.failed + one.progress.refused
    return failed === 0 ? <span class="quiet">–</span> : <span class="bad">{count(failed)}</span>
  } },
  { title: 'Ends', cell: (one) => (one.endedAt !== null ? <Time at={one.endedAt} />
    : one.etaMs === null ? <span class="quiet">–</span> : <span class="nowrap">in {duration(one.etaMs)}</span>) },
  { title: 'Requested', cell: (one) => <Time at={one.requestedAt} /> },
  { title: 'By', extra: true, cell: (one) => <span class="nowrap">{byWhom(one)}</span> },
]

/** A proposal is made by Freshline itself. */
export function byWhom(one: Backfill): string {
  return one.requestedBy === null ? (one.reasons === null ? '–' : 'Freshline') : visible(one.requestedBy)
}

function None({ filtered }: { filtered: boolean }) {
  if (filtered) return <Empty title="No backfill matches." />
  return (
    <Empty title="Nobody asked for a backfill yet.">
      <p>
        A backfill computes partitions again: after a change of the code, for days that are missing, or for those that
        failed. Select a range in the heat map of an asset with partitions, or begin with a form.
      </p>
      {may('operate') ? <a class="button" href={href(['backfills'], { new: 1 })}>New backfill…</a> : null}
    </Empty>
  )
}
