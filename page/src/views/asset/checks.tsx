import { get, segment } from '../../api'
import { visible } from '../../format'
import { about, useLoad } from '../../load'
import { Body, Empty, Panel, RunLink, State, Time } from '../../parts/basics'
import { Table } from '../../parts/table'
import { href } from '../../router'
import type { Check, Page, Run, Snapshot } from '../../types'
import type { AssetData } from './data'
import { keyOf, PartitionPicker } from './picker'

const SHOWN = 20

/** The results of checks: of the current version, of the last run that they stopped, and of the versions before. */
export function Checks({ data, partition }: { data: AssetData; partition: string }) {
  const { asset } = data
  const key = keyOf(asset, partition)
  const loaded = useLoad(`checks ${asset.assetId} ${key}`, async (stop) => {
    const [history, failed] = await Promise.all([
      get<Page<Snapshot>>(`assets/${segment(asset.assetId)}/history`, { partitionKey: key, limit: SHOWN }, stop),
      get<Page<Run>>('runs', { asset: asset.assetId, partitionKey: key, limit: 1 }, stop),
    ])
    return { versions: history.items, last: failed.items[0] ?? null }
  }, { events: about(asset.assetId, asset.workflowSlug) })
  return (
    <>
      <PartitionPicker asset={asset} partition={partition} />
      <Body from={loaded} lines={5}>
        {({ versions, last }) => {
          const names = [...new Set(versions.flatMap((one) => (one.checks ?? []).map((check) => check.check)))]
          const stopped = last?.status === 'failed' ? (last.error?.checks ?? []) : []
          return (
            <>
              {stopped.length === 0 || last === null ? null : (
                <Panel title="The last run published nothing" note={<>run <RunLink id={last.id} />, <Time at={last.finishedAt} /></>}>
                  <Results checks={stopped} />
                </Panel>
              )}
              {names.length === 0 ? <None /> : (
                <>
                  <Panel title={`Version ${versions[0]?.version ?? ''}`} note="the newest"><Results checks={versions[0]?.checks ?? []} /></Panel>
                  <Panel title={`The last ${versions.length} versions`}><Matrix names={names} versions={versions} assetId={asset.assetId} /></Panel>
                </>
              )}
            </>
          )
        }}
      </Body>
    </>
  )
}

function Results({ checks }: { checks: readonly Check[] }) {
  if (checks.length === 0) return <p class="quiet">No checks ran on this version.</p>
  return (
    <Table items={checks} label="Results of checks" id={(one) => one.check} columns={[
      { title: 'Result', cell: (one) => <State of={resultOf(one)} label={one.passed ? 'passed' : one.severity === 'warn' ? 'warning' : 'failed'} /> },
      { title: 'Check', cell: (one) => <code>{visible(one.check)}</code> },
      { title: 'Severity', cell: (one) => visible(one.severity) },
      { title: 'Observed', cell: (one) => (one.observed === null ? <span class="quiet">–</span> : <code>{visible(JSON.stringify(one.observed))}</code>) },
      { title: 'Message', wide: true, cell: (one) => visible(one.message ?? '') },
    ]} />
  )
}

const resultOf = (one: Check): string => (one.passed ? 'passed' : one.severity === 'warn' ? 'stale' : 'failed')

/** Checks by versions, the oldest on the left. */
function Matrix({ names, versions, assetId }: { names: readonly string[]; versions: readonly Snapshot[]; assetId: string }) {
  const ordered = [...versions].reverse()
  return (
    <div class="matrix" tabIndex={0} role="region" aria-label="Checks by versions">
      <table>
        <thead>
          <tr>
            <th scope="col">Check</th>
            {ordered.map((one) => (
              <th key={one.version} scope="col">
                <a href={href(['assets', assetId], { tab: 'versions', b: one.version, partition: one.partitionKey })}>{one.version}</a>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {names.map((name) => (
            <tr key={name}>
              <th scope="row"><code>{visible(name)}</code></th>
              {ordered.map((one) => {
                const found = (one.checks ?? []).find((check) => check.check === name)
                return (
                  <td key={one.version}>
                    {found === undefined ? <span class="quiet">–</span>
                      : <State of={resultOf(found)} label={found.passed ? 'passed' : visible(found.message ?? 'failed')} bare />}
                  </td>
                )
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function None() {
  return (
    <Empty title="No checks ran.">
      <p>
        Checks are written at the output of a workflow. With the severity <code>error</code> a failed check publishes
        nothing, with <code>warn</code> the version says so.
      </p>
      <pre class="box">{'checks:\n  - notNull: [origin]\n  - minRows: 1'}</pre>
    </Empty>
  )
}
