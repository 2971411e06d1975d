import { get } from '../api'
import { count } from '../format'
import { any, useLoad } from '../load'
import { Body, Heading, Shares, State, Ticks } from '../parts/basics'
import { Cli } from '../parts/cli'
import { href } from '../router'
import { ASSET_STATES } from '../states'
import { serverTime } from '../time'
import type { Overview } from '../types'
import { Causes } from './overview/causes'
import { FirstUse } from './overview/first'
import { capital } from './overview/order'
import { Processes, Promises, Runs, Yesterday } from './overview/panels'
import './overview.css'

/** Processes that fall silent and ages have no events. */
const EVERY_MS = 15_000

/** The first page: what is not fresh, why, and what to do about it. */
export default function OverviewView() {
  const loaded = useLoad('overview', async (stop) => {
    const found = await get<Overview>('overview', {}, stop)
    serverTime(found.at)
    return found
  }, { events: any, everyMs: EVERY_MS })
  return (
    <>
      {loaded.data === null ? <Heading title="Overview" /> : null}
      <Body from={loaded} lines={8}>{(overview) => <Content overview={overview} reload={loaded.reload} />}</Body>
      <Cli command="freshline status" />
    </>
  )
}

function Content({ overview, reload }: { overview: Overview; reload: () => void }) {
  const applied = Object.keys(overview.counts).length > 0
  return (
    <div class="view">
      <div class="overview-top">
        <h1><Ticks text={capital(overview.sentence)} /></h1>
        {applied ? <Counts overview={overview} /> : null}
      </div>
      {overview.notes.map((note) => <p key={note} class="banner banner-warn"><span><Ticks text={capital(note)} /></span></p>)}
      {applied ? (
        <div class="overview-columns">
          <div class="view">
            <FirstUse overview={overview} />
            <Causes overview={overview} reload={reload} />
            <Yesterday changed={overview.changedSinceYesterday} />
          </div>
          <div class="view overview-side">
            <Runs runs={overview.runs} />
            <Promises lag={overview.lag} />
            <Processes overview={overview} />
          </div>
        </div>
      ) : <FirstUse overview={overview} />}
    </div>
  )
}

/** How many assets are in which state: a bar, and the numbers as links to these assets. */
function Counts({ overview }: { overview: Overview }) {
  const counts = ASSET_STATES
    .map((state) => [state, overview.counts[state] ?? 0] as const)
    .filter(([state, n]) => n > 0 && state !== 'retired')
  const produced = counts.filter(([state]) => state !== 'source')
  return (
    <>
      <Shares counts={produced} total={overview.total} label="Assets by state" />
      <ul class="plain overview-counts">
        {counts.map(([state, n]) => (
          <li key={state}>
            <a href={href(['assets'], { state })}><State of={state} label={`${count(n)} ${plural(state, n)}`} /></a>
          </li>
        ))}
      </ul>
    </>
  )
}

const plural = (state: string, n: number): string => (state === 'source' && n !== 1 ? 'sources' : state)
