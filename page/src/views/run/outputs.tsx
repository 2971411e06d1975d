import { bytes, counted, named, rows } from '../../format'
import { AssetLink, Empty, Panel, State } from '../../parts/basics'
import { Table } from '../../parts/table'
import type { Check, RunDetail, RunOutput } from '../../types'
import { Version } from './cause'
import { FailedChecks } from './error'

const MOST = 100

/** What a run published. */
export function Outputs({ run }: { run: RunDetail }) {
  const changed = run.outputs.filter((one) => one.changed).length
  const note = run.outputs.length === 0 ? undefined
    : `${changed} changed, ${run.outputs.length - changed} identical`
  return (
    <Panel title="What it published" note={note}>
      {run.outputs.length === 0 ? <Empty title={NOTHING[run.status] ?? 'Nothing.'} /> : (
        <Table items={run.outputs.slice(0, MOST)} id={(one) => named(one.assetId, one.partitionKey)} label="Published outputs" columns={[
          { title: 'Output', cell: (one) => <AssetLink id={one.assetId} partition={one.partitionKey} tab="history" /> },
          { title: 'Content', cell: (one) => <State of={one.changed ? 'changed' : 'identical'} /> },
          { title: 'Version', cell: (one) => <span class="nowrap">#{one.version} <Version text={one.dataVersion} /></span> },
          { title: 'Rows', number: true, cell: (one) => rows(one.rows) },
          { title: 'Size', number: true, cell: (one) => bytes(one.bytes) },
          { title: 'Checks', wide: true, cell: (one) => <Checks output={one} /> },
        ]} />
      )}
      {run.outputs.length > MOST ? <p class="quiet">and {counted(run.outputs.length - MOST, 'more output')}</p> : null}
    </Panel>
  )
}

const NOTHING: Readonly<Record<string, string>> = {
  queued: 'Nothing yet. All outputs are published together when it succeeds.',
  running: 'Nothing yet. All outputs are published together when it succeeds.',
  failed: 'Nothing: a run that fails publishes none of its outputs. The versions before are still current.',
  canceled: 'Nothing: a canceled run publishes none of its outputs.',
  succeeded: 'It succeeded and published no output.',
}

function Checks({ output }: { output: RunOutput }) {
  const checks: readonly Check[] = output.checks ?? []
  if (checks.length === 0) return <span class="quiet">none declared</span>
  const failed = checks.filter((one) => !one.passed)
  return failed.length === 0
    ? <State of="passed" label={`${counted(checks.length, 'check')} passed`} />
    : (
      <div class="stack">
        <span class="warn">{failed.length} of {counted(checks.length, 'check')} did not pass</span>
        <FailedChecks checks={failed} />
      </div>
    )
}
