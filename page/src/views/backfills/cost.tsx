import { bytes, count, counted, rows, visible } from '../../format'
import { Ticks, WorkflowLink } from '../../parts/basics'
import { Table, type Column } from '../../parts/table'
import { duration } from '../../time'
import type { BackfillPreview, PreviewPart } from '../../types'
import { noteTexts, timeText } from './text'

/** What a backfill would compute, and what that costs, measured by earlier runs. */
export function Cost({ preview, concurrency, partial }: { preview: BackfillPreview; concurrency: number; partial: boolean }) {
  return (
    <>
      <p><strong>{counted(preview.partitions, 'partition')}</strong> would be computed. {timeText(preview, concurrency)}</p>
      <Table items={preview.parts} label="What it would compute" id={(one) => one.workflowSlug} columns={COLUMNS} />
      {noteTexts(preview, partial).map((one) => <p key={one}><Ticks text={one} /></p>)}
    </>
  )
}

const COLUMNS: readonly Column<PreviewPart>[] = [
  { title: 'Workflow', cell: (one) => <WorkflowLink slug={one.workflowSlug} /> },
  { title: 'Partitions', number: true, cell: (one) => count(one.partitions) },
  // Newest first or oldest first: a range is read from its begin to its end.
  { title: 'From', cell: (one) => (one.first === '' ? <span class="quiet">all of it</span> : <code class="nowrap">{visible([one.first, one.last].sort()[0] ?? '')}</code>) },
  { title: 'To', cell: (one) => (one.partitions > 1 ? <code class="nowrap">{visible([one.first, one.last].sort()[1] ?? '')}</code> : null) },
  { title: 'Runs', number: true, cell: (one) => count(one.runs) },
  { title: 'One run', cell: (one) => (one.p50Ms === null ? <span class="quiet">not measured</span> : `${duration(one.p50Ms)} to ${duration(one.p95Ms ?? 0)}`) },
  { title: 'Rows', number: true, cell: (one) => rows(one.rows) },
  { title: 'Size', number: true, cell: (one) => bytes(one.bytes) },
  { title: 'Frozen', number: true, extra: true, cell: (one) => count(one.frozen) },
  { title: 'Sealed', number: true, extra: true, cell: (one) => count(one.sealed) },
  { title: 'Outside', number: true, extra: true, cell: (one) => count(one.outside) },
]
