import { useSignal } from '@preact/signals'
import { useMemo } from 'preact/hooks'
import { get, Problem, segment } from '../api'
import { counted, named, short, visible } from '../format'
import { ofType, useLoad } from '../load'
import { AssetLink, Bar, Body, Empty, Facts, Heading, Panel, State, Time, WorkflowLink } from '../parts/basics'
import { Cli } from '../parts/cli'
import { Heatmap } from '../parts/heatmap'
import type { Selected } from '../parts/heatmap-select'
import { cellsOf, cellText } from '../parts/partition-cells'
import { Table } from '../parts/table'
import { href } from '../router'
import type { BackfillDetail, BackfillPart } from '../types'
import { BackfillActions } from './backfills/actions'
import { byWhom } from './backfills/list'
import { Proposal } from './backfills/proposal'
import { endText, progressText, reasonText, share } from './backfills/text'

/** One backfill: how far it is, workflow by workflow, and what failed. */
export default function BackfillView({ id }: { id: string }) {
  const loaded = useLoad(`backfill ${id}`, (stop) => get<BackfillDetail>(`backfills/${segment(id)}`, {}, stop), {
    events: ofType('backfill.', 'run.'), everyMs: 5000,
  })
  if (loaded.error instanceof Problem && loaded.error.status === 404) {
    return (
      <>
        <Heading title={short(id)} kind="backfill" />
        <Empty title="There is no such backfill.">
          <p>
            A backfill that ended is deleted after <code>FRESHLINE_KEEP_DAYS</code>. Its runs may be younger.{' '}
            <a href="#/backfills">All backfills</a>
          </p>
        </Empty>
      </>
    )
  }
  return <Body from={loaded} lines={8}>{(found) => <Shown found={found} reload={loaded.reload} />}</Body>
}

function Shown({ found, reload }: { found: BackfillDetail; reload: () => void }) {
  const ended = found.endedAt !== null
  return (
    <>
      <Heading title={short(found.id)} kind="backfill"
        aside={<><State of={found.status} /> <span>of <AssetLink id={found.assetId} tab="partitions" /></span></>}
        actions={<BackfillActions backfill={found} done={reload} />} />
      {found.status === 'proposed' ? <Proposal proposal={found} done={reload} linked={false} /> : (
        <section class="stack" aria-label="Progress">
          <Bar value={share(found.progress)} of={1} label="Progress" />
          <p><strong>{progressText(found.progress, ended)}</strong>{endText(found) === '' ? null : <>; {endText(found)}</>}
            {ended ? <>; ended <Time at={found.endedAt} /></> : null}
            {found.notBefore !== null && !ended ? <>; not before <Time at={found.notBefore} clock /></> : null}</p>
        </section>
      )}
      {found.parts.map((part) => <Part key={part.workflowSlug} part={part} note={found.status === 'proposed' ? counted(part.total, 'partition') : progressText(part, ended)} />)}
      <Failures found={found} />
      <Panel title="What was asked for"><Facts items={facts(found)} /></Panel>
      <Cli command={`freshline backfill show ${short(found.id)}${ended ? '' : ' --follow'}`} />
    </>
  )
}

/** The part of one workflow: counts, and the state of each partition. */
function Part({ part, note }: { part: BackfillPart; note: string }) {
  const cells = useMemo(() => cellsOf(part.states, part), [JSON.stringify(part.states)])
  const selected = useSignal<Selected | null>(null)
  const index = selected.value?.[0] ?? null
  const key = index === null || index >= cells.total ? null : cells.keyOf(index)
  return (
    <Panel title={<WorkflowLink slug={part.workflowSlug} />} note={note}>
      {cells.total === 0 ? <p class="quiet">It has no partitions.</p> : (
        <Heatmap cells={cells} label={`Partitions of ${part.workflowSlug}`} good="done" most={260} selected={selected.value}
          onSelect={(wanted) => { selected.value = wanted === null ? null : [wanted[1], wanted[1]] }} />
      )}
      {index === null || key === null ? null : (
        <p class="row" role="status">{cellText(cells, index)} <a href={href(['why', part.workflowSlug], { partition: key })}>Why?</a>
          <a href={href(['runs'], { workflow: part.workflowSlug, partition: key })}>Its runs</a></p>
      )}
    </Panel>
  )
}

function Failures({ found }: { found: BackfillDetail }) {
  if (found.failures.length === 0) return null
  return (
    <Panel title={`${counted(found.failures.length, 'partition')} failed or refused`} note="the rest goes on without them">
      <Table items={found.failures} label="Failed partitions" id={(one) => `${one.workflowSlug}@${one.partitionKey}`} columns={[
        { title: 'State', cell: (one) => <State of={one.state} /> },
        { title: 'Partition', wide: true, cell: (one) => <span class="mono">{visible(named(one.workflowSlug, one.partitionKey))}</span> },
        { title: 'More', cell: (one) => (
          <a href={href(['why', one.workflowSlug], { partition: one.partitionKey })}
            aria-label={`Why? ${visible(named(one.workflowSlug, one.partitionKey))}`}>Why?</a>) },
      ]} />
    </Panel>
  )
}

function facts(found: BackfillDetail): Parameters<typeof Facts>[0]['items'] {
  const also = [...(found.upstream ? ['what they are computed from'] : []), ...(found.downstream ? ['what is computed from them'] : [])]
  return [
    ['Requested', <><Time at={found.requestedAt} clock />{byWhom(found) === '–' ? null : <> by {byWhom(found)}</>}</>],
    ['Partitions', found.only === 'all' ? 'all that are selected' : `those that are ${found.only}`],
    ['Also computed', also.length === 0 ? 'nothing upstream or downstream' : also.join(', and ')],
    ['At a time', `${counted(found.concurrency, 'run')}${found.batch > 1 ? ` of up to ${found.batch} partitions` : ''}, the ${found.order} first`],
    ['Quiet hours', found.duringQuietHours ? 'it runs in them too' : 'they hold it'],
    ['Priority', `${found.priority} among backfills`],
    found.partial ? ['Partial', 'input partitions that are missing or were removed are left out'] : null,
    found.notBefore === null ? null : ['Not before', <Time at={found.notBefore} clock />],
    found.reasons === null || found.status === 'proposed' ? null
      : ['Proposed because', <ul class="plain">{found.reasons.map((one) => <li key={reasonText(one)}>{visible(reasonText(one))}</li>)}</ul>],
    ['Last progress', found.progressedAt === null ? 'none yet' : <Time at={found.progressedAt} />],
    ['Whole id', <code>{found.id}</code>],
  ]
}
