import { get, Problem, segment } from '../../api'
import { counted, logText, quote, version, visible } from '../../format'
import { about, useLoad } from '../../load'
import { AssetLink, Body, Empty, Facts, Failed, Heading, Panel, State, Time, WorkflowLink } from '../../parts/basics'
import { Cli } from '../../parts/cli'
import { Due } from '../../parts/due'
import { Needs } from '../../parts/scope'
import { href } from '../../router'
import { may } from '../../session'
import type { Asset, Watch } from '../../types'
import { askReport } from '../asset/actions'
import { LastChange } from './change'
import { modeOf, neverText, watchMark, watchText } from './data'
import { Deliveries } from './deliveries'

/** One source: its state, its watcher, and its deliveries. */
export function SourceDetail({ id }: { id: string }) {
  const asset = useLoad(`source ${id}`, (stop) => get<Asset>(`assets/${segment(id)}`, {}, stop), { events: about(id) })
  const found = asset.data
  return (
    <>
      <p><a href={href(['sources'])}>All sources</a></p>
      <Heading kind="source" title={id} aside={found === null ? undefined : <State of={found.state} />}
        actions={found !== null && may('operate')
          ? <button type="button" class="primary" onClick={() => askReport(found, '', asset.reload)}>Report…</button> : undefined} />
      <Body from={asset} lines={6}>{(one) => (one.workflowSlug !== null ? (
        <Empty title="This is not a source.">
          <p>Workflow <WorkflowLink slug={one.workflowSlug} /> produces it: see <AssetLink id={one.assetId} />.</p>
        </Empty>
      ) : <Shown asset={one} />)}</Body>
      <Needs scope="operate" to="report a source or to leave out a delivery" />
      <Cli command={`freshline watch show ${quote(id)}`} />
    </>
  )
}

function Shown({ asset }: { asset: Asset }) {
  const append = modeOf(asset) === 'append'
  const text = (name: string): string | null => (typeof asset.declaration[name] === 'string' ? visible(asset.declaration[name] as string) : null)
  return (
    <>
      <div class="columns">
        <Panel title="About this source">
          <Facts items={[
            ['Mode', append ? 'append: each report adds data' : 'snapshot: each report replaces the data'],
            [asset.partitions === null ? 'Last change' : 'Reported', <LastChange key="c" asset={asset} />],
            asset.partitions === null ? ['Data version', <span key="v" class="id">{visible(version(asset.dataVersion))}</span>]
              : ['Newest partition', <a key="n" class="nowrap" href={href(['assets', asset.assetId], { tab: 'partitions' })}>{visible(asset.partitionKey)}</a>],
            text('format') === null ? null : ['Format', text('format')],
            text('path') === null ? null : ['Path', <code key="p">{text('path')}</code>],
            ['Read by', asset.consumedBy.length === 0 ? <span class="quiet">no workflow</span> : (
              <span key="r" class="row">{asset.consumedBy.slice(0, 20).map((slug) => <WorkflowLink key={slug} slug={slug} />)}
                {asset.consumedBy.length > 20 ? <span class="quiet">and {asset.consumedBy.length - 20} more</span> : null}</span>
            )],
            ['More', <a key="a" href={href(['assets', asset.assetId])}>versions and graph of this asset</a>],
          ]} />
        </Panel>
        <WatchPanel id={asset.assetId} declared={asset.declaration.watch !== undefined && asset.declaration.watch !== null} />
      </div>
      {append ? <Deliveries id={asset.assetId} /> : null}
    </>
  )
}

function WatchPanel({ id, declared }: { id: string; declared: boolean }) {
  const watch = useLoad(`watch ${id}`, (stop) => get<Watch>(`assets/${segment(id)}/watch`, {}, stop), {
    enabled: declared, events: about(id), everyMs: 5000,
  })
  const none = !declared || (watch.error instanceof Problem && watch.error.status === 404)
  return (
    <Panel title="Watcher">
      {none ? (
        <Empty title="Nobody looks at it.">
          <p>Its changes are reported, by a command or a request. With <code>watch</code> in its definition a materializer looks for them.</p>
          <Cli command={`freshline report ${quote(id)}`} />
        </Empty>
      ) : watch.data === null ? (watch.error === null ? <p class="quiet">…</p> : <Failed error={watch.error} retry={watch.reload} />)
        : <WatchFacts watch={watch.data} />}
    </Panel>
  )
}

/** The partitions of the last look that reported some, the newest first. The server names at most 20. */
export function Reported({ id, keys }: { id: string; keys: readonly string[] }) {
  return (
    <>
      <span class="row">{keys.toReversed().map((key) => <a key={key} class="nowrap" href={href(['assets', id], { partition: key, tab: 'partitions' })}>{visible(key)}</a>)}</span>
      <span class="quiet">{keys.length < MOST_KEYS ? '' : `the newest ${MOST_KEYS} `}of the last look that reported</span>
    </>
  )
}

/** The server names at most this many partitions of a look. */
const MOST_KEYS = 20

function WatchFacts({ watch }: { watch: Watch }) {
  return (
    <>
      <Facts items={[
        ['State', <State key="s" of={watchMark(watch)} label={watchText(watch)} />],
        watch.lookError === null ? null : ['Last error', <span key="e" class="bad">{visible(watch.lookError)}</span>],
        watch.failingSince === null ? null : ['Failing since', <Time key="f" at={watch.failingSince} />],
        watch.breakerOpenedAt === null ? null : ['Breaker', <>open since <Time at={watch.breakerOpenedAt} />: it looks seldom until a look succeeds</>],
        ['Last look', watch.lookedAt === null ? <span class="quiet">{neverText(watch)}</span> : <Time key="l" at={watch.lookedAt} />],
        ['Next look', <Due key="n" at={watch.nextAt} />],
        ['What it saw', watch.summary === null ? <span class="quiet">nothing yet</span> : visible(watch.summary)],
        ['Reported', <>{counted(watch.reported, 'time')}{watch.reportedAt === null ? null : <>, last <Time at={watch.reportedAt} /></>}</>],
        watch.reportedPartitions.length === 0 ? null : ['Partitions', <Reported key="p" id={watch.assetId} keys={watch.reportedPartitions} />],
        watch.conflicts.length === 0 ? null : ['Not delivered', (
          <ul key="c" class="plain stack">
            {watch.conflicts.map((one) => <li key={one.subject}><code>{visible(one.subject)}</code> {visible(one.message)}</li>)}
          </ul>
        )],
      ]} />
      <details>
        <summary>As declared</summary>
        <pre class="box">{JSON.stringify(watch.watch, null, 2).split('\n').map(logText).join('\n')}</pre>
      </details>
      <Cli command={`freshline watch check ${quote(watch.assetId)}`} />
      <p class="quiet">The command looks now, from the machine where it is called, and reports nothing.</p>
    </>
  )
}
