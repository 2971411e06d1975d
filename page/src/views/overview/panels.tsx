import type { ComponentChildren } from 'preact'
import { count, counted, few, visible } from '../../format'
import { AssetLink, Empty, Panel, Time, WorkflowLink } from '../../parts/basics'
import { href } from '../../router'
import { duration } from '../../time'
import type { Overview, Pool } from '../../types'

export function Runs({ runs }: { runs: Overview['runs'] }) {
  return (
    <Panel title="Runs" actions={<a href={href(['runs'])}>All runs</a>}>
      <div class="figures">
        <Figure n={runs.running} text="running" to={href(['runs'], { state: 'running' })} />
        <Figure n={runs.queued} text="queued" to={href(['runs'], { state: 'queued' })} />
        <Figure n={runs.failed24h} text="failed in 24 h" bad to={href(['runs'], { state: 'failed', since: '24h' })} />
      </div>
      <p class="quiet">
        In the last day {count(runs.succeeded24h)} succeeded
        {runs.avoided24h === 0 ? '; none was avoided.'
          : ` and ${count(runs.avoided24h)} ${runs.avoided24h === 1 ? 'was' : 'were'} avoided, because nothing that they read had changed.`}
      </p>
    </Panel>
  )
}

function Figure({ n, text, to, bad = false }: { n: number; text: string; to: string; bad?: boolean }) {
  return (
    <a class={bad && n > 0 ? 'figure figure-bad' : 'figure'} href={to}>
      <span class="figure-number">{count(n)}</span><span class="figure-text">{text}</span>
    </a>
  )
}

/** Ages against promises: the worst first. */
export function Promises({ lag }: { lag: Overview['lag'] }) {
  return (
    <Panel title="Promises" note={lag.promised === 0 ? undefined : `${count(lag.promised - lag.overdue)} of ${count(lag.promised)} kept`}>
      {lag.promised === 0 ? (
        <p class="quiet">No asset promises a greatest age. <code>freshness: maxAge</code> in its definition does.</p>
      ) : (
        <ul class="plain lags">
          {lag.worst.map((one) => (
            <li key={one.assetId}>
              <AssetLink id={one.assetId} />
              <span class={one.overdue ? 'number bad' : 'number quiet'}>{duration(one.ageMs)} of {duration(one.maxAgeMs)}</span>
              <progress
                class={one.overdue ? 'bar bar-bad' : 'bar'} max={1} value={Math.min(1, one.ageMs / Math.max(1, one.maxAgeMs))}
                aria-label={`Age of ${visible(one.assetId)}: ${duration(one.ageMs)} of ${duration(one.maxAgeMs)}`}
              />
            </li>
          ))}
        </ul>
      )}
      {lag.behind.length === 0 ? null : (
        <>
          <h3>Behind their inputs</h3>
          <ul class="plain lags">
            {lag.behind.map((one) => (
              <li key={one.assetId}><AssetLink id={one.assetId} /><span class="number quiet">{duration(one.lagMs)}</span></li>
            ))}
          </ul>
        </>
      )}
    </Panel>
  )
}

export function Processes({ overview: { processes, pools, watches } }: { overview: Overview }) {
  const { materializers, workers, apis, silent } = processes
  return (
    <Panel title="Processes" actions={<a href={href(['workers'])}>All processes</a>}>
      <dl class="facts facts-narrow">
        <Fact name="Deciding" bad={materializers === 0}>{materializers === 0 ? 'no materializer: nothing is decided' : counted(materializers, 'materializer')}</Fact>
        <Fact name="Working" bad={workers === 0}>{workers === 0 ? 'no worker: queued runs wait' : counted(workers, 'worker')}</Fact>
        <Fact name="Serving">{counted(apis, 'API process', 'API processes')}</Fact>
        {silent > 0 ? <Fact name="Silent" bad>{counted(silent, 'process', 'processes')} without a heartbeat</Fact> : null}
        {pools.map((pool) => <Fact key={`${pool.project} ${pool.name}`} name={poolName(pool, pools)}>{poolText(pool)}</Fact>)}
        {watches.total === 0 ? null : (
          <Fact name="Watching" bad={watches.failing + watches.stopped > 0}>
            <a href={href(['sources'])}>{counted(watches.total, 'source')}</a>
            {watches.failing > 0 ? `, ${count(watches.failing)} failing` : ''}
            {watches.stopped > 0 ? `, ${count(watches.stopped)} stopped` : ''}
          </Fact>
        )}
      </dl>
    </Panel>
  )
}

function Fact({ name, bad = false, children }: { name: string; bad?: boolean; children: ComponentChildren }) {
  return <div><dt>{visible(name)}</dt><dd class={bad ? 'bad' : undefined}>{children}</dd></div>
}

/** Pools have the same names in several projects. */
function poolName(pool: Pool, pools: readonly Pool[]): string {
  const shared = pools.some((one) => one.name === pool.name && one.project !== pool.project)
  return `Pool ${pool.name}${shared ? ` (${pool.project})` : ''}`
}

const poolText = (pool: Pool): string =>
  `${count(pool.running)} of ${counted(pool.slots, 'slot')} busy${pool.queued > 0 ? `, ${count(pool.queued)} queued` : ''}`

const MOST_DEFINITIONS = 8

/** What happened in the last 24 hours. */
export function Yesterday({ changed }: { changed: Overview['changedSinceYesterday'] }) {
  const quiet = changed.versions + changed.identical + changed.definitions.length + changed.changes + changed.failing.length === 0
  return (
    <Panel title="Since yesterday" note={<Time at={changed.since} age={false} />} actions={<a href={href(['events'], { since: '24h' })}>Events</a>}>
      {quiet ? <Empty title="Nothing has happened in the last 24 hours." /> : (
        <ul class="changes text">
          <li>
            {changed.assets === 0 ? 'No asset has other data' : `${counted(changed.assets, 'asset has', 'assets have')} other data`}
            {changed.versions === 0 ? '' : ` (${counted(changed.versions, 'version')})`}
            {changed.identical === 0 ? '.' : `; ${counted(changed.identical, 'snapshot')} had the same content as before.`}
          </li>
          {changed.failing.length === 0 ? null : (
            <li>
              Began to fail: {changed.failing.map((id, index) => <span key={id}>{index > 0 ? ', ' : ''}<AssetLink id={id} /></span>)}.
            </li>
          )}
          {changed.definitions.length === 0 ? null : <Definitions definitions={changed.definitions} />}
          {changed.changes === 0 ? null : (
            <li><a href={href(['audit'])}>{counted(changed.changes, 'change')}</a> by people and commands.</li>
          )}
        </ul>
      )}
    </Panel>
  )
}

function Definitions({ definitions }: { definitions: Overview['changedSinceYesterday']['definitions'] }) {
  const first = definitions.slice(0, MOST_DEFINITIONS)
  const rest = definitions.slice(MOST_DEFINITIONS)
  return (
    <li>
      Applied: {first.map((one, index) => (
        <span key={one.slug}>
          {index > 0 ? ', ' : ''}<WorkflowLink slug={one.slug} /> <span class="quiet nowrap">version {one.workflowVersion}</span>
        </span>
      ))}
      {rest.length > 0 ? <span title={few(rest.map((one) => visible(one.slug)), 30)}> and {count(rest.length)} more</span> : null}.
    </li>
  )
}
