import { useSignal } from '@preact/signals'
import { get, segment } from '../api'
import { counted, visible } from '../format'
import { useLoad } from '../load'
import { Body, Empty, Heading, Panel, State, nameClass } from '../parts/basics'
import { Cli } from '../parts/cli'
import { Due } from '../parts/due'
import { Filters, type Filter } from '../parts/filters'
import { Table, type Column } from '../parts/table'
import { href, route } from '../router'
import { may } from '../session'
import type { Asset, Page, Watch } from '../types'
import { askReport } from './asset/actions'
import { SourceDetail } from './sources/detail'
import { LastChange } from './sources/change'
import { matchingSources, modeOf, sourceIds, watchMark, watchState, watchText, watchedText, type Picture } from './sources/data'
import './lists.css'

/** The details of this many sources are read at once. */
const PAGE = 25

const FILTERS: readonly Filter[] = [
  { name: 'search', label: 'Name', placeholder: 'a part of it' },
  { name: 'watch', label: 'Watcher', options: [['', 'any'], ['watched', 'watched'], ['failing', 'failing'], ['none', 'not watched']] },
]

/** What comes from outside: sources, their watchers, and their deliveries. */
export default function SourcesView() {
  const source = route.value.query.source
  return source ? <SourceDetail key={source} id={source} /> : <Sources />
}

interface Known {
  readonly ids: readonly string[]
  readonly watches: ReadonlyMap<string, Watch>
}

function Sources() {
  const known = useLoad('sources', readSources, {
    events: (event) => event.type === 'workflow.definition.updated', everyMs: 10_000,
  })
  return (
    <>
      <Heading title="Sources" />
      <Filters filters={FILTERS} />
      <Body from={known} lines={6}>{(found) => <Found known={found} />}</Body>
      <Cli command="freshline watch list" />
    </>
  )
}

async function readSources(stop: AbortSignal): Promise<Known> {
  const [picture, watches] = await Promise.all([
    // The picture of the graph has an ETag, so that it is sent once per definition.
    get<Picture>('assets/graph/layout', {}, stop),
    get<Page<Watch>>('watches', { limit: 1000 }, stop),
  ])
  return { ids: sourceIds(picture), watches: new Map(watches.items.map((one) => [one.assetId, one])) }
}

function Found({ known }: { known: Known }) {
  const { query } = route.value
  const shown = useSignal(PAGE)
  const ids = matchingSources(known.ids, known.watches, query.search ?? '', query.watch ?? '')
  const wanted = ids.slice(0, shown.value)
  const details = useLoad(`sources ${wanted.join('\n')}`, async (stop) =>
    Promise.all(wanted.map((id) => get<Asset>(`assets/${segment(id)}`, {}, stop))), {
    events: (event) => wanted.includes(event.subject),
  })
  if (known.ids.length === 0) return <None />
  if (ids.length === 0) return <Empty title="No source matches the filters." />
  const failing = [...known.watches.values()].filter((one) => watchState(one) === 'failing').length
  return (
    <Panel title="Sources" note={`${counted(known.ids.length, 'source')}, ${known.watches.size} watched${failing > 0 ? `, ${failing} failing` : ''}`}>
      <Body from={details}>{(assets) => (
        <>
          <Table items={assets} columns={columns(known.watches, details.reload)} id={(one) => one.assetId} label="Sources by name" />
          {ids.length > shown.value ? (
            <p class="list-end"><button type="button" onClick={() => {
              shown.value += PAGE
            }}>More</button></p>
          ) : null}
        </>
      )}</Body>
    </Panel>
  )
}

function columns(watches: ReadonlyMap<string, Watch>, reload: () => void): readonly Column<Asset>[] {
  return [
    { title: 'Source', cell: (one) => <a class={nameClass(one.assetId)} href={href(['sources'], { source: one.assetId })}>{visible(one.assetId)}</a> },
    { title: 'State', cell: (one) => <State of={one.state} /> },
    { title: 'Mode', extra: true, cell: (one) => modeOf(one) },
    { title: 'Last change', cell: (one) => <LastChange asset={one} /> },
    { title: 'Watcher', wide: true, cell: (one) => <Watcher watch={watches.get(one.assetId)} /> },
    { title: 'Read by', extra: true, number: true, cell: (one) => one.consumedBy.length },
    ...(may('operate') ? [{ title: 'Action', cell: (one: Asset) => (
      <button type="button" class="small" aria-label={`Report ${one.assetId}`} onClick={() => askReport(one, '', reload)}>Report</button>
    ) }] : []),
  ]
}

function Watcher({ watch }: { watch: Watch | undefined }) {
  if (watch === undefined) return <span class="quiet">none: it is reported</span>
  return (
    <div>
      <State of={watchMark(watch)} label={watchState(watch) === 'ok' ? `looks at ${watchedText(watch.kind)}` : watchText(watch)} />
      <div class="quiet">next look <Due at={watch.nextAt} />{watch.summary === null ? null : <>; {visible(watch.summary)}</>}</div>
      {watch.lookError === null ? null : <div class="bad">{visible(watch.lookError)}</div>}
      {watch.conflicts.length > 0 ? <div class="warn">{counted(watch.conflicts.length, 'thing is', 'things are')} not delivered</div> : null}
    </div>
  )
}

function None() {
  return (
    <Empty title="No sources yet.">
      <p>A source is data that comes from outside: an asset that workflows consume and none produces. Its changes are reported, or a watcher looks for them.</p>
      <Cli command="freshline report SOURCE" />
      <p>A file such as <code>sources/orders.yaml</code> with <code>watch</code> declares a watcher; <code>freshline apply</code> stores it. <AssetsLink /></p>
    </Empty>
  )
}

const AssetsLink = () => <a href={href(['assets'])}>All assets</a>
