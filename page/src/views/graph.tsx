import { useComputed, useSignal } from '@preact/signals'
import { useMemo, useRef } from 'preact/hooks'
import { count, counted, visible } from '../format'
import { Empty, Failed, Skeleton } from '../parts/basics'
import { Cli } from '../parts/cli'
import { route, setQuery } from '../router'
import { commandFor, readAddress, viewQuery, type Address } from './graph/address'
import { arrange, type Block, type Grouping } from './graph/arrange'
import { Legend } from './graph/legend'
import { tally } from './graph/live'
import { FocusPanel } from './graph/panel'
import type { Renderer } from './graph/renderer'
import { choose, waiting, type Shown } from './graph/shown'
import { Stage } from './graph/stage'
import { Toolbar } from './graph/toolbar'
import { useGraph, type Graph } from './graph/use'
import './graph.css'

/** More assets than this are drawn in frames of their groups, unless the reader chooses otherwise. */
const MANY = 300
/** What needs attention is shown asset by asset as long as it can be. */
const MANY_CAUSES = 1200

export default function GraphView() {
  const renderer = useRef<Renderer | null>(null)
  const watched = useGraph(() => renderer.current?.repaint())
  const { graph } = watched
  if (graph === null) {
    return (
      <div class="graph view-full">
        <div class="graph-bar"><h1>Graph</h1></div>
        <div class="graph-note">
          {watched.error === null ? <Skeleton lines={8} /> : <Failed error={watched.error} retry={watched.reload} />}
        </div>
      </div>
    )
  }
  if (graph.model.size === 0) return <Nothing />
  return <Loaded graph={graph} version={watched.version} renderer={renderer} />
}

function Loaded({ graph, version, renderer }: {
  graph: Graph
  version: number
  renderer: { current: Renderer | null }
}) {
  const { model, live } = graph
  const address = useComputed(() => readAddress(route.value.query)).value
  const refreshed = useSignal(0)
  const focus = model.numberOf(address.focus)
  const root = address.mode === 'near' ? focus : -1
  const shown = useMemo(
    () => choose(model, live.values, { mode: address.mode, search: address.search, focus: root, steps: address.steps }),
    [graph, address.mode, address.search, address.steps, root, refreshed.value])
  const grouping = address.grouping ?? usual(model.groups.length, shown.count, address.mode === 'all' ? MANY : MANY_CAUSES)
  // The proportions of the window when the view opened: turning a phone moves nothing.
  const aspect = useMemo(() => (innerWidth < 700 ? 0.7 : 1.7), [])
  const plan = useMemo(() => arrange(model, shown.mask, grouping, aspect), [shown, grouping, aspect])
  const counts = useMemo(() => tally(live.values, shown.mask), [shown, version])
  const others = useMemo(
    () => (address.mode === 'attention' && address.search === '' ? waiting(live.values, shown.mask) : 0), [shown, version])

  const select = (node: number): void => {
    // A neighbourhood has an asset in its middle: a click beside the cells does not end it.
    if (node >= 0) setQuery({ focus: model.ids[node]! })
    else if (address.mode !== 'near') setQuery({ focus: '' })
  }
  const openGroup = (block: Block): void => {
    if (grouping === 'prefix') renderer.current?.approach(block)
    else setQuery({ show: 'all', q: `group:${model.groups[block.group]}`, groups: 'none', ...viewQuery(null) }, { push: true })
  }
  const clear = (): void => {
    if (address.mode === 'near') setQuery({ show: '', focus: '', ...viewQuery(null) }, { push: true })
    else if (address.focus !== '') setQuery({ focus: '' })
    else if (address.search !== '') setQuery({ q: '' })
  }
  const found = (): void => {
    // The search takes effect in this moment; what it found is drawn with the next frame.
    setTimeout(() => {
      const { nodes } = latest.current.plan
      const named = model.numberOf(readAddress(route.peek().query).search.replace(/^\+|\+$/g, ''))
      const one = named >= 0 ? named : nodes.length === 1 ? nodes[0]! : -1
      if (one < 0) {
        renderer.current?.fit()
        return
      }
      select(one)
      renderer.current?.reveal(one, true)
    }, 50)
  }
  const latest = useRef({ plan })
  latest.current = { plan }
  return (
    <div class="graph view-full">
      <Toolbar address={address} grouping={grouping} focused={focus >= 0} found={found} />
      <Notes shown={shown} others={others} address={address} unknown={address.focus !== '' && focus < 0}
        refresh={() => { refreshed.value += 1 }} />
      <div class="graph-body">
        {shown.count === 0 ? <NoMatch address={address} /> : (
          <Stage graph={graph} plan={plan} focus={focus} address={address} renderer={renderer}
            select={select} openGroup={openGroup} clear={clear} />
        )}
        {focus < 0 ? null : (
          <FocusPanel
            key={focus} graph={graph} node={focus} near={address.mode === 'near'} close={clear}
            focus={(node) => {
              select(node)
              renderer.current?.reveal(node, false)
            }}
            showNear={() => setQuery({ show: 'near', ...viewQuery(null) }, { push: true })}
          />
        )}
      </div>
      <div class="graph-foot">
        <span class="quiet">{summary(shown, model.size, address)}</span>
        <Legend counts={counts} search={address.search} />
        <Cli command={commandFor(address)} />
      </div>
    </div>
  )
}

const usual = (groups: number, shown: number, many: number): Grouping => (shown > many && groups > 1 ? 'prefix' : 'none')

function summary(shown: Shown, all: number, address: Address): string {
  const part = shown.count === all ? counted(all, 'asset') : `${count(shown.count)} of ${counted(all, 'asset')}`
  if (address.mode === 'attention' && !shown.allFresh) return `${part}: what is not fresh, and what it is made from`
  if (address.mode === 'near') return `${part}: the neighbourhood of ${visible(address.focus)}`
  return part
}

function Notes({ shown, others, address, unknown, refresh }: {
  shown: Shown
  others: number
  address: Address
  unknown: boolean
  refresh: () => void
}) {
  return (
    <div class="graph-notes" role="status">
      {shown.allFresh ? <span>Everything is fresh. All assets are shown.</span> : null}
      {unknown ? <span class="warn">No asset is called {visible(address.focus)}.</span> : null}
      {shown.unknown.length > 0 ? <span class="warn">Nothing matches {visible(shown.unknown.join(', '))}.</span> : null}
      {others > 0 && !shown.allFresh ? (
        <button type="button" class="small" onClick={refresh}>
          {counted(others, 'other asset')} {others === 1 ? 'is' : 'are'} not fresh now — show
        </button>
      ) : null}
      {others > 0 && shown.allFresh ? (
        <button type="button" class="small" onClick={refresh}>
          {counted(others, 'asset')} {others === 1 ? 'is' : 'are'} not fresh now — show only these
        </button>
      ) : null}
    </div>
  )
}

function NoMatch({ address }: { address: Address }) {
  return (
    <div class="graph-note">
      <Empty title="No asset is selected by these words.">
        {address.mode === 'attention' && address.search !== ''
          ? <p>Only what is not fresh is shown. What you search may be fresh.</p> : null}
        <p class="row">
          {address.mode === 'all' ? null
            : <button type="button" onClick={() => setQuery({ show: 'all', ...viewQuery(null) })}>Search in everything</button>}
          {address.search === '' ? null
            : <button type="button" onClick={() => setQuery({ q: '', ...viewQuery(null) })}>Clear the search</button>}
        </p>
      </Empty>
    </div>
  )
}

function Nothing() {
  return (
    <div class="graph view-full">
      <div class="graph-bar"><h1>Graph</h1></div>
      <div class="graph-note">
        <Empty title="There are no assets yet.">
          <p>A workflow that is applied appears here, with what it reads and what it makes.</p>
          <Cli command="freshline apply" />
        </Empty>
      </div>
    </div>
  )
}
