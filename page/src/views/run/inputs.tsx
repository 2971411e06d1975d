import { get, segment } from '../../api'
import { counted, named } from '../../format'
import { useLoad } from '../../load'
import { AssetLink, Empty, Failed, Panel, State } from '../../parts/basics'
import { Table } from '../../parts/table'
import type { Page, Run, RunDetail, RunInput, Snapshot } from '../../types'
import { Version } from './cause'

/** More inputs than this are behind a button: a month of partitions fits. */
const MOST = 31

/** What a run read, against what is current now. */
export function Inputs({ run }: { run: RunDetail }) {
  const shown = run.inputs.slice(0, MOST)
  const heads = useHeads(run, shown)
  if (run.inputs.length === 0) {
    return <Panel title="What it read"><Empty title="Nothing: it has no inputs, or none has data." /></Panel>
  }
  const newer = shown.filter((one) => difference(one, heads.of(one)) === 'newer').length
  return (
    <Panel title="What it read" note={heads.known ? (newer === 0 ? 'all inputs are still current' : `${counted(newer, 'input')} changed since`) : undefined}>
      {heads.error === null ? null : <Failed error={heads.error} />}
      <Table items={shown} id={(one) => named(one.assetId, one.partitionKey)} label="Pinned inputs" columns={[
        { title: 'Input', cell: (one) => <AssetLink id={one.assetId} partition={one.partitionKey} /> },
        { title: 'Read', cell: (one) => <span class="nowrap">#{one.version} <Version text={one.dataVersion} /></span> },
        { title: 'Now', cell: (one) => {
          const head = heads.of(one)
          return head === null ? <span class="quiet">–</span> : <span class="nowrap">#{head.version} <Version text={head.dataVersion} /></span>
        } },
        { title: 'Since then', wide: true, cell: (one) => <Difference input={one} head={heads.of(one)} known={heads.known} /> },
      ]} />
      {run.inputs.length > MOST ? <p class="quiet">and {counted(run.inputs.length - MOST, 'more input')}; the command with <code>--json</code> lists all</p> : null}
    </Panel>
  )
}

export type Change = 'same' | 'identical' | 'newer' | 'older' | 'unknown'

/** Compare what was read with the current version. A rollback makes an older version current again. */
export function difference(input: RunInput, head: RunInput | null): Change {
  if (head === null) return 'unknown'
  if (head.version === input.version) return 'same'
  if (head.dataVersion === input.dataVersion) return 'identical'
  return head.version > input.version ? 'newer' : 'older'
}

function Difference({ input, head, known }: { input: RunInput; head: RunInput | null; known: boolean }) {
  const versions = head === null ? 0 : head.version - input.version
  switch (difference(input, head)) {
    case 'same':
      return <State of="fresh" label="the same version" />
    case 'identical':
      return <State of="identical" label="another version with the same data" />
    case 'newer':
      return <State of="stale" label={`changed: ${counted(versions, 'newer version')}`} />
    case 'older':
      return <State of="stale" label="another version is current" />
    default:
      return <span class="quiet">{known ? 'it has no data now' : ''}</span>
  }
}

/** The current versions of inputs: those that the answer has, else read one by one. */
function useHeads(run: Run & { heads?: RunInput[] }, inputs: readonly RunInput[]) {
  const given = run.heads
  const loaded = useLoad(`heads ${run.id}`, (stop) => readHeads(inputs, stop), {
    enabled: given === undefined,
    events: (event) => event.type.startsWith('asset.produced') && inputs.some((one) => one.assetId === event.subject),
  })
  const heads = new Map((given ?? loaded.data ?? []).map((one) => [named(one.assetId, one.partitionKey), one]))
  return {
    known: given !== undefined || loaded.data !== null,
    error: given === undefined ? loaded.error : null,
    of: (one: RunInput): RunInput | null => heads.get(named(one.assetId, one.partitionKey)) ?? null,
  }
}

async function readHeads(inputs: readonly RunInput[], stop: AbortSignal): Promise<RunInput[]> {
  const found = await Promise.all(inputs.map(async (one) => {
    const page = await get<Page<Snapshot>>(`assets/${segment(one.assetId)}/history`, { limit: 5, partitionKey: one.partitionKey }, stop)
    return page.items.find((snapshot) => snapshot.head) ?? null
  }))
  return found.filter((one): one is Snapshot => one !== null)
}
