import { get, Problem, segment } from '../../api'
import { count, counted, visible } from '../../format'
import { useLoad } from '../../load'
import { Body, Empty, Panel } from '../../parts/basics'
import { Needs } from '../../parts/scope'
import { route, setQuery } from '../../router'
import { may } from '../../session'
import type { Rows as RowsDocument } from '../../types'
import type { AssetData } from './data'
import { keyOf, PartitionPicker } from './picker'

const SHOWN = 100

/** The first rows of a version. They are data, so they need a scope of their own. */
export function Rows({ data, partition }: { data: AssetData; partition: string }) {
  const { asset } = data
  const key = keyOf(asset, partition)
  const { version = '' } = route.value.query
  const allowed = may('data')
  const never = asset.version === null && asset.partitions === null
  const loaded = useLoad(`rows ${asset.assetId} ${key} ${version} ${asset.version}`, (stop) => (
    get<RowsDocument>(`assets/${segment(asset.assetId)}/rows`, { version, partitionKey: key, limit: SHOWN }, stop)),
  { enabled: allowed && !never })
  if (!allowed) return <Needs scope="data" to="see rows: they may hold what not everybody should read" />
  if (never) return <Empty title="There are no rows: it was never produced." />
  const problem = loaded.error instanceof Problem ? loaded.error : null
  return (
    <>
      <PartitionPicker asset={asset} partition={partition} />
      {version === '' ? null : (
        <p class="row">
          Version {visible(version)} is shown.
          <button type="button" class="small" onClick={() => setQuery({ version: '' })}>The current one</button>
        </p>
      )}
      {problem?.code === 'no-table' ? <NoTable reason={problem.detail} />
        : problem?.status === 404 || problem?.status === 422 ? <Empty title="There are no rows."><p>{visible(problem.detail)}</p></Empty>
        : problem?.status === 403 ? <Empty title="Rows are not shown to you."><p>{visible(problem.detail)}</p></Empty>
        : <Body from={loaded} lines={8}>{(found) => <Grid found={found} />}</Body>}
    </>
  )
}

function Grid({ found }: { found: RowsDocument }) {
  if (found.rows.length === 0) return <Empty title={`Version ${found.version} has no rows.`} />
  return (
    <Panel
      title={`${found.truncated ? 'The first' : 'All'} ${counted(found.rows.length, 'row')} of version ${found.version}`}
      note={found.cut ? 'long values and columns after the hundredth are cut' : undefined}
    >
      <div class="rows-box edge" tabIndex={0} role="region" aria-label="Rows">
        <table>
          <thead>
            <tr>
              <th scope="col"><span class="hidden-text">Number</span></th>
              {found.columns.map((one) => <th key={one.name} scope="col">{visible(one.name)} <span class="quiet">{visible(one.type)}</span></th>)}
            </tr>
          </thead>
          <tbody>
            {found.rows.map((row, number) => (
              <tr key={number}>
                <td class="quiet number">{count(number + 1)}</td>
                {row.map((value, column) => (
                  <td key={column} class={typeof value === 'number' ? 'number' : undefined}>
                    {value === null ? <span class="quiet">null</span> : visible(String(value))}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  )
}

function NoTable({ reason }: { reason: string }) {
  return (
    <Empty title="There is no table to show.">
      <p>{visible(reason.charAt(0).toUpperCase() + reason.slice(1))}. The payload and the location of each version are in <code>freshline show</code>.</p>
    </Empty>
  )
}
