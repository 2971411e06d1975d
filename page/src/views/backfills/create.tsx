import { useMemo } from 'preact/hooks'
import { post, Problem } from '../../api'
import { counted, visible } from '../../format'
import { useLoad } from '../../load'
import { Body, Empty, Failed, Heading, Panel } from '../../parts/basics'
import { Cli } from '../../parts/cli'
import { ask } from '../../parts/confirm'
import { Heatmap } from '../../parts/heatmap'
import { between, cellsOf, countsText } from '../../parts/partition-cells'
import { readPartitions } from '../../parts/partition-data'
import { names, onceKey } from '../../parts/requests'
import { Needs } from '../../parts/scope'
import { go, href, route, setQuery } from '../../router'
import { may } from '../../session'
import type { AssetPartitions, BackfillDetail, BackfillPreview } from '../../types'
import { Cost } from './cost'
import { Options } from './options'
import { bodyOf, commandOf, DEFAULT_CONCURRENCY, type Form } from './request'
import { timeText } from './text'

/** The form of a new backfill. All of it is in the address; a dry run shows the cost before anything starts. */
export function NewBackfill() {
  const form = route.value.query
  const asset = form.asset ?? ''
  const body = bodyOf(form)
  const allowed = may('operate')
  const preview = useLoad(`preview ${JSON.stringify(body)}`, () => post<BackfillPreview>('backfills/preview', body), { enabled: allowed && asset !== '' })
  return (
    <>
      <Heading title="New backfill" actions={<a class="button" href={href(['backfills'])}>All backfills</a>} />
      <Needs scope="operate" to="start a backfill" />
      <Options form={form} />
      {asset === '' ? <Empty title="Which asset?"><p>Name an asset with partitions. The heat map of an asset begins here with its selection.</p></Empty> : (
        <>
          <Choose assetId={asset} form={form} />
          <Panel title="Dry run" note="measured by earlier runs; nothing is stored"
            actions={allowed ? <button type="button" class="primary" disabled={preview.data === null || preview.error !== null || preview.data.partitions === 0}
              onClick={() => preview.data !== null && askStart(form, body, preview.data)}>Start…</button> : undefined}>
            {preview.error instanceof Problem && preview.error.status === 422
              ? <p class="banner banner-warn" role="status"><span>{visible(preview.error.detail)}</span></p>
              : preview.error !== null ? <Failed error={preview.error} retry={preview.reload} />
              : <Body from={preview} lines={4}>{(found) => <Cost preview={found} concurrency={concurrencyOf(form)} partial={form.partial === '1'} />}</Body>}
          </Panel>
        </>
      )}
      <Cli command={commandOf(form, '--dry-run')} />
    </>
  )
}

const concurrencyOf = (form: Form): number => Math.max(1, Number(form.concurrency) || DEFAULT_CONCURRENCY)

function askStart(form: Form, body: Record<string, unknown>, preview: BackfillPreview): void {
  const key = onceKey()
  ask({
    title: `Start a backfill of ${visible(form.asset ?? '')}`,
    verb: 'Start',
    text: () => (
      <>
        <p>
          {counted(preview.partitions, 'partition')} of {counted(preview.parts.length, 'workflow')} will be computed, in{' '}
          {counted(preview.parts.reduce((sum, one) => sum + one.runs, 0), 'run')}. {timeText(preview, concurrencyOf(form))}
        </p>
        <p>All other runs come before those of backfills. It can be paused and canceled; what is done stays done.</p>
      </>
    ),
    command: () => commandOf(form, '--yes'),
    act: async () => {
      const made = await post<BackfillDetail>('backfills', { ...body, key })
      go(['backfills', made.id])
      return `The backfill of ${visible(made.assetId)} was started.`
    },
  })
}

/** The partitions as they are now: a drag chooses the range. */
function Choose({ assetId, form }: { assetId: string; form: Form }) {
  const loaded = useLoad(`partitions ${assetId}`, (stop) => readPartitions(assetId, stop), {})
  if (loaded.error instanceof Problem) return null
  return (
    <Panel title="Its partitions now" note="drag over them to choose a range">
      <Body from={loaded} lines={3}>{(found) => <Choice found={found} form={form} />}</Body>
    </Panel>
  )
}

const MOST_KEYS = 500

function Choice({ found, form }: { found: AssetPartitions; form: Form }) {
  const cells = useMemo(() => cellsOf(found.items, found), [found])
  const ends = cells.grain === null ? [] : [form.from ? cells.indexOf(form.from) : -1, form.to ? cells.indexOf(form.to) : -1]
  const keys = cells.grain === null ? names(form.keys ?? '').map(cells.indexOf).filter((one) => one >= 0).sort((a, b) => a - b) : ends
  const [first = -1, last = -1] = [keys[0], keys.at(-1)]
  return (
    <>
      <p class="quiet">{countsText(found.counts, found.total)}</p>
      <Heatmap cells={cells} label={`Partitions of ${found.assetId}`} most={260}
        selected={first < 0 || last < 0 ? null : between(first, last)}
        onSelect={(wanted) => {
          if (wanted === null) setQuery({ from: '', to: '', keys: '' })
          else if (cells.grain !== null) setQuery({ from: cells.keyOf(wanted[0]), to: cells.keyOf(wanted[1]), keys: '' })
          else {
            const chosen = Array.from({ length: Math.min(MOST_KEYS, wanted[1] - wanted[0] + 1) }, (_, offset) => cells.keyOf(wanted[0] + offset))
            setQuery({ keys: chosen.filter((one) => one !== null).join(','), from: '', to: '' })
          }
        }} />
    </>
  )
}
