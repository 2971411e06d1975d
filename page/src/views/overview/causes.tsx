import { useRef } from 'preact/hooks'
import { count, counted, named, visible } from '../../format'
import { AssetLink, Empty, Panel, RunLink, State, Ticks, Time } from '../../parts/basics'
import { Command, Copy } from '../../parts/cli'
import { href } from '../../router'
import { absolute, now, relative } from '../../time'
import type { Cause, Overview } from '../../types'
import { NextButton, useCauseCommands } from './actions'
import { around, identity, inOrder, markOf, moving } from './order'

/** What is wrong, at its origin; then what ends by itself. */
export function Causes({ overview, reload }: { overview: Overview; reload: () => void }) {
  const shown = useRef<readonly string[]>([])
  const causes = inOrder(overview.causes, shown.current)
  shown.current = causes.map(identity)
  useCauseCommands(causes, reload)
  const roots = causes.filter((one) => !moving(one))
  const others = causes.filter(moving)
  return (
    <>
      <Panel title="What needs attention" note={roots.length === 0 ? undefined : others.length === 0 ? counted(roots.length, 'cause') : `${roots.length} of ${counted(causes.length, 'cause')}`}>
        {roots.length > 0 ? <List causes={roots} done={reload} /> : (
          <Empty title="Nothing needs attention.">
            {overview.total === 0 ? null : <p>{others.length > 0 ? 'What is not fresh is on its way.' : 'Every asset has the data that it promised.'}</p>}
          </Empty>
        )}
        {overview.moreCauses > 0 ? (
          <p class="quiet">
            {counted(overview.moreCauses, 'more cause is', 'more causes are')} not shown. <a href={href(['assets'], { state: 'failing' })}>Failing assets</a>
          </p>
        ) : null}
      </Panel>
      {others.length > 0 ? (
        <Panel title="On its way" note="nothing to do">
          <List causes={others} done={reload} />
        </Panel>
      ) : null}
    </>
  )
}

function List({ causes, done }: { causes: readonly Cause[]; done: () => void }) {
  return <ol class="plain edge causes">{causes.map((one) => <Item key={identity(one)} cause={one} done={done} />)}</ol>
}

function Item({ cause, done }: { cause: Cause; done: () => void }) {
  const subject = cause.assetId ?? cause.workflowSlug
  return (
    <li class="cause">
      <State of={markOf(cause)} label={cause.kind.replaceAll('-', ' ')} bare />
      <div class="cause-body">
        <h3><Said cause={cause} /></h3>
        {cause.error === null ? null : (
          <p class="cause-error">
            {cause.runId === null ? visible(cause.error)
              : <a href={href(['runs', cause.runId])} title="The run and its log">{visible(cause.error)}</a>}
          </p>
        )}
        <p class="cause-facts">
          <Since cause={cause} />
          {cause.runId === null ? null : <span>run <RunLink id={cause.runId} /></span>}
          {cause.behind > 0 && !moving(cause) ? <span>{counted(cause.behind, 'asset is', 'assets are')} made from it</span> : null}
          {subject === null ? null : <a href={href(['why', cause.assetId ?? cause.assets[0] ?? subject])}>Why?</a>}
        </p>
        <Explained cause={cause} />
        <p class="cause-next">
          <span><Ticks text={cause.next.text} />{/[.!?]$/.test(cause.next.text) ? '' : '.'}</span>
          {cause.next.command === null ? null : (
            <span class="cause-command">
              <Command text={visible(cause.next.command)} />
              <Copy text={visible(cause.next.command)} label={`Copy: ${cause.next.command}`} />
            </span>
          )}
        </p>
      </div>
      <div class="cause-action"><NextButton cause={cause} done={done} /></div>
    </li>
  )
}

/** The sentence of a cause, with the thing that it is about as a link. */
function Said({ cause }: { cause: Cause }) {
  for (const [name, at] of [
    [cause.workflowSlug === null ? null : named(cause.workflowSlug, cause.partitionKey), ['workflows', cause.workflowSlug ?? '']],
    [cause.workflowSlug, ['workflows', cause.workflowSlug ?? '']],
    [cause.assetId, ['assets', cause.assetId ?? '']],
  ] as const) {
    const parts = around(cause.sentence, name)
    if (parts === null) continue
    const before = parts[0].slice(0, 1).toUpperCase() + parts[0].slice(1)
    return <>{visible(before)}<a class="name" href={href(at)}>{visible(parts[1])}</a><Ticks text={parts[2]} /></>
  }
  return <Ticks text={cause.sentence} />
}

function Since({ cause }: { cause: Cause }) {
  return (
    <>
      {cause.since === null ? null : <span>for <Age at={cause.since} /></span>}
      {cause.until === null ? null : <span>until <Time at={cause.until} age={false} /></span>}
    </>
  )
}

/** An age without "ago". */
function Age({ at }: { at: string }) {
  return <time dateTime={at} title={absolute(at)}>{relative(at, now.value).replace(/ ago$/, '').replace(/^now$/, 'a moment')}</time>
}

const MOST_NAMES = 3

/** Which assets are not fresh because of it: the first few, the rest on demand. */
function Explained({ cause }: { cause: Cause }) {
  if (cause.explains === 0) return null
  const first = cause.assets.slice(0, MOST_NAMES)
  const rest = cause.assets.slice(MOST_NAMES)
  const left = cause.explains - first.length
  const links = (assets: readonly string[]) => assets.map((id, index) => (
    <span key={id}>{index > 0 ? ', ' : ''}<AssetLink id={id} /></span>
  ))
  return (
    <div class="cause-assets text">
      {counted(cause.explains, 'asset')} not fresh: {links(first)}{' '}
      {left > 0 && rest.length > 0 ? (
        <details>
          <summary>and {count(left)} more</summary>
          <span>{links(rest)}{left > rest.length ? <> and {count(left - rest.length)} others (<code>freshline status</code>)</> : null}</span>
        </details>
      ) : left > 0 ? `and ${count(left)} more` : null}
    </div>
  )
}

