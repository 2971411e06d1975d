import { segment } from '../../api'
import { counted, visible } from '../../format'
import { about, useLoad } from '../../load'
import { Sentence, State, Time, WorkflowLink } from '../../parts/basics'
import { href } from '../../router'
import { readDetails, sinceOf } from './details'
import { neighbours, stateOf, type Links } from './model'
import type { Graph } from './use'

const MOST = 40

/** The focused asset: its state, since when, why, and its neighbours as lists that a keyboard and a reader reach. */
export function FocusPanel(props: {
  graph: Graph
  node: number
  near: boolean
  focus: (node: number) => void
  showNear: () => void
  close: () => void
}) {
  const { graph: { model, live }, node } = props
  const id = model.ids[node]!
  const slug = model.slugs[node] ?? null
  const loaded = useLoad(`graph details ${segment(id)}`, (stop) => readDetails(id, stop), { events: about(id, slug) })
  const state = stateOf(live.values[node]!)
  const found = loaded.data
  const since = found === null ? null : sinceOf(found)
  return (
    <aside class="graph-panel" aria-label={`The selected asset, ${visible(id)}`}>
      <header class="graph-panel-head">
        <h2><a class="name" href={href(['assets', id])}>{visible(id)}</a></h2>
        <button type="button" class="small bare" aria-label="Clear the selection" onClick={props.close}>✕</button>
      </header>
      <div class="row">
        <State of={state} />
        {since === null ? null : <span class="quiet">{since.word} <Time at={since.at} /></span>}
      </div>
      {found?.decision?.sentence === undefined ? null : <p><Sentence text={found.decision.sentence} /></p>}
      <p class="row">
        <a class="button small" href={href(['why', id])}>Why</a>
        <a class="button small" href={href(['assets', id])}>Open</a>
        {props.near ? null
          : <button type="button" class="small" onClick={props.showNear}>Show its neighbourhood</button>}
      </p>
      {slug === null
        ? <p class="quiet">Made outside; its changes are reported.</p>
        : <p><span class="quiet">Workflow </span><WorkflowLink slug={slug} /></p>}
      <Neighbours title="Made from" links={model.inputs} {...props} />
      <Neighbours title="Read by" links={model.outputs} {...props} />
    </aside>
  )
}

function Neighbours({ title, links, graph: { model, live }, node, focus }: {
  title: string
  links: Links
  graph: Graph
  node: number
  focus: (node: number) => void
}) {
  const all = neighbours(links, node)
  const first = links.start[node]!
  const shown = [...all.subarray(0, MOST)]
  return (
    <section class="stack">
      <h3>{title}<span class="count">{all.length}</span></h3>
      {all.length === 0 ? <p class="quiet">No asset.</p> : null}
      <ul class="plain graph-neighbours">
        {shown.map((one, at) => (
          <li key={one}>
            <button type="button" class="bare" onClick={() => focus(one)}>
              <State of={stateOf(live.values[one]!)} bare />
              <span class="mono">{visible(model.ids[one]!)}</span>
              {links.triggers[first + at] === 1 ? null : <span class="badge">does not trigger</span>}
            </button>
          </li>
        ))}
      </ul>
      {all.length > MOST ? <p class="quiet">and {counted(all.length - MOST, 'other asset')}</p> : null}
    </section>
  )
}
