import { useSignal } from '@preact/signals'
import { useMemo } from 'preact/hooks'
import { count, visible } from '../format'
import { State } from './basics'
import type { Cells, StateRange } from './partition-cells'
import { Table } from './table'

/** The same as the heat map, as a table: equal states in a row are one line, the newest first. */
export function RangeTable({ cells, label }: { cells: Cells; label: string }) {
  const most = useSignal(FEW_LINES)
  const rows = useMemo(() => linesOf(cells).map((one, number) => ({ ...one, number })), [cells])
  return (
    <>
      <Table
        items={rows.slice(0, most.value)} id={(one) => String(one.number)} label={label}
        columns={[
          { title: 'State', cell: (one) => <State of={one.state} /> },
          { title: 'From', cell: (one) => <code>{visible(one.from)}</code> },
          { title: 'To', cell: (one) => (one.count > 1 ? <code>{visible(one.to)}</code> : <span class="quiet">–</span>) },
          { title: 'Partitions', number: true, cell: (one) => count(one.count) },
        ]}
      />
      {rows.length > most.value
        ? <p class="list-end"><button type="button" onClick={() => { most.value += 500 }}>{count(rows.length - most.value)} more lines</button></p> : null}
    </>
  )
}

const FEW_LINES = 25
const FEW_KEYS = 200

/** Ranges, the newest first. Keys that are no times are listed one by one if they are few: a range says little of them. */
export function linesOf(cells: Cells): readonly StateRange[] {
  if (cells.grain !== null) return [...cells.ranges].reverse()
  const keys = cells.total > FEW_KEYS ? [] : Array.from({ length: cells.total }, (_, index) => cells.keyOf(index))
  if (keys.length > 0 && !keys.includes(null)) {
    return keys.map((key, index) => ({ state: cells.stateOf(index), from: key!, to: key!, count: 1 }))
  }
  // The first of a listing is the end of a range in the API.
  return cells.ranges.map((one) => ({ ...one, from: one.to, to: one.from }))
}
