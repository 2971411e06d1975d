import { bytes, rows, visible } from '../../format'
import { Facts, Panel, RunLink, State, Time } from '../../parts/basics'
import { Version } from '../../parts/evidence'
import { Table } from '../../parts/table'
import type { Json, Snapshot } from '../../types'
import { columnType, compareSchemas } from './schema'

/** Two versions side by side: what was read, how many rows, and how the columns differ. */
export function Compare({ older, newer }: { older: Snapshot; newer: Snapshot }) {
  return (
    <Panel title={`Version ${older.version} and version ${newer.version}`} class="compare">
      <div class="columns">
        <Side title="Older" snapshot={older} />
        <Side title="Newer" snapshot={newer} />
      </div>
      <h3>Columns</h3>
      <Columns older={older} newer={newer} />
      <h3>Inputs that were read</h3>
      <ReadInputs older={older} newer={newer} />
    </Panel>
  )
}

function Side({ title, snapshot }: { title: string; snapshot: Snapshot }) {
  return (
    <div>
      <h3>{title}: version {snapshot.version}</h3>
      <Facts items={[
        ['Data version', <Version of={snapshot.dataVersion} />],
        ['Produced', <Time at={snapshot.producedAt} clock />],
        ['Rows', <>{rows(snapshot.rows)} <span class="quiet">{snapshot.bytes === null ? '' : bytes(snapshot.bytes)}</span></>],
        snapshot.runId === null ? null : ['Run', <RunLink id={snapshot.runId} />],
        snapshot.goneAt === null ? null : ['Data', 'marked for removal'],
      ]} />
    </div>
  )
}

function Columns({ older, newer }: { older: Snapshot; newer: Snapshot }) {
  const [before, after] = [older.schema?.fields, newer.schema?.fields]
  if (before === undefined || after === undefined) return <p class="quiet">The columns are not known: no table was written.</p>
  const found = compareSchemas(before, after)
  const lines = [
    ...found.added.map((one) => ({ what: 'added', name: one.name, from: '', to: columnType(one) })),
    ...found.removed.map((one) => ({ what: 'removed', name: one.name, from: columnType(one), to: '' })),
    ...found.retyped.map((one) => ({ what: 'changed type', ...one })),
  ]
  if (lines.length === 0) {
    return <p>{found.reordered ? 'Both have the same columns, in another order.' : `Both have the same ${after.length} columns.`}</p>
  }
  return (
    <Table items={lines} label="Differences of the columns" id={(one) => `${one.what} ${one.name}`} columns={[
      { title: 'Difference', cell: (one) => <span class={`schema-${one.what.split(' ')[0]}`}>{one.what}</span> },
      { title: 'Column', cell: (one) => <code>{visible(one.name)}</code> },
      { title: 'Type before', cell: (one) => (one.from === '' ? null : <code>{visible(one.from)}</code>) },
      { title: 'Type after', cell: (one) => (one.to === '' ? null : <code>{visible(one.to)}</code>) },
    ]} />
  )
}

function ReadInputs({ older, newer }: { older: Snapshot; newer: Snapshot }) {
  const [before, after] = [versionsOf(older.inputs), versionsOf(newer.inputs)]
  const names = [...new Set([...after.keys(), ...before.keys()])].sort()
  if (names.length === 0) return <p class="quiet">No inputs were recorded.</p>
  return (
    <Table items={names} label="Inputs that were read" id={(one) => one}
      current={(one) => before.get(one) !== after.get(one)} columns={[
        { title: 'Input', cell: (one) => visible(one) },
        { title: 'Before', cell: (one) => <Version of={before.get(one) ?? null} /> },
        { title: 'After', cell: (one) => <Version of={after.get(one) ?? null} /> },
        { title: 'Difference', cell: (one) => (before.get(one) === after.get(one) ? <span class="quiet">the same</span> : <State of="changed" />) },
      ]} />
  )
}

function versionsOf(inputs: Json): Map<string, string> {
  if (typeof inputs !== 'object' || inputs === null || Array.isArray(inputs)) return new Map()
  return new Map(Object.entries(inputs).flatMap(([name, read]) => (
    typeof read === 'object' && read !== null && !Array.isArray(read) && typeof read.dataVersion === 'string' ? [[name, read.dataVersion] as const] : [])))
}
