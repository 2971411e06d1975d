import { counted, visible } from '../../format'
import { useListing } from '../../listing'
import { about } from '../../load'
import { AssetLink, Empty, Panel, RunLink, Sentence, State, Time } from '../../parts/basics'
import { conclusionText } from '../../parts/conclusion'
import { Version } from '../../parts/evidence'
import { inputRows, type InputRow } from '../../parts/evidence-text'
import { Filters } from '../../parts/filters'
import { ListingTable, type Column } from '../../parts/table'
import { href, route } from '../../router'
import type { Decision, InputEvidence } from '../../types'
import type { AssetData } from './data'
import { keyOf, PartitionPicker } from './picker'

/** More inputs than this do not fit beside each other: then a column names those that changed. */
const MOST_COLUMNS = 2

/** The decisions about an asset, as a comparison: per input the version that was read and the current one. */
export function Decisions({ data, partition }: { data: AssetData; partition: string }) {
  const { asset, workflow } = data
  const { outcome = '' } = route.value.query
  const listing = useListing<Decision>(
    'decisions', { asset: asset.assetId, partitionKey: keyOf(asset, partition), outcome }, (one) => one.id,
    { events: about(asset.assetId, asset.workflowSlug), everyMs: 10_000, limit: 30 },
  )
  const inputs = workflow?.consumes ?? []
  const simple = asset.partitions === null && inputs.length <= MOST_COLUMNS
  return (
    <>
      <PartitionPicker asset={asset} partition={partition} />
      <Filters filters={[{ name: 'outcome', label: 'Outcome', options: [['', 'all'], ['run', 'run'], ['hold', 'hold'], ['skip', 'skip'], ['error', 'error']] }]} />
      <Panel title="Decisions" note="what the last success had read → what was current">
        <ListingTable listing={listing} label="Decisions" id={(one) => one.id} empty={<None asset={asset.assetId} />}
          columns={[...columnsOf(asset.assetId), ...(simple ? inputs.map(inputColumn) : [changedColumn]), EVIDENCE(asset.assetId)]} />
      </Panel>
    </>
  )
}

function columnsOf(assetId: string): readonly Column<Decision>[] {
  return [
    { title: 'When', cell: (one) => (
      <a class="nowrap" href={href(['why', assetId], { at: one.lastAt, partition: one.partitionKey })}><Time at={one.lastAt} clock /></a>) },
    { title: 'Outcome', cell: (one) => <State of={one.outcome} /> },
    { title: 'Why', cell: (one) => (
      <>
        <Sentence text={conclusionText(one)} />
        {one.count > 1 ? <span class="quiet"> ({one.count}×, since <Time at={one.at} clock />)</span> : null}
      </>) },
  ]
}

const EVIDENCE = (assetId: string): Column<Decision> => ({
  title: 'More', cell: (one) => (one.runId === null
    ? <a class="nowrap" href={href(['why', assetId], { at: one.lastAt, partition: one.partitionKey })} aria-label="All evidence of this decision">evidence</a>
    : <span class="nowrap">run <RunLink id={one.runId} /></span>),
})

function inputColumn(assetId: string): Column<Decision> {
  return {
    title: visible(assetId), cell: (one) => {
      const found = inputRows(one.evidence.inputs ?? []).find((row) => row.assetId === assetId)
      return found === undefined ? <span class="quiet">–</span> : <Compared row={found} />
    },
  }
}

const changedColumn: Column<Decision> = {
  title: 'Inputs', cell: (one) => {
    const inputs = one.evidence.inputs ?? []
    const changed = inputs.filter((input) => input.changed)
    if (inputs.length === 0) return <span class="quiet">–</span>
    if (changed.length === 0) return <span class="quiet">all the same</span>
    return (
      <ul class="plain">
        {[...new Set(changed.map((input) => input.assetId))].map((assetId) => (
          <li key={assetId}><Changed inputs={changed.filter((input) => input.assetId === assetId)} /></li>
        ))}
      </ul>
    )
  },
}

/** What changed of one input: its versions, or how many of its partitions. All of them are in the evidence. */
function Changed({ inputs }: { inputs: readonly InputEvidence[] }) {
  const [first] = inputRows(inputs)
  if (first === undefined) return null
  if (inputs.length > 1) return <><State of="changed" bare /> {visible(first.assetId)}: {counted(inputs.length, 'partition')}</>
  return <><AssetLink id={first.assetId} partition={first.partitionKey} /> <Compared row={first} /></>
}

function Compared({ row }: { row: InputRow }) {
  if (!row.changed) return <span class="quiet nowrap" title="the same"><Version of={row.to} /></span>
  return (
    <span class="compared" title={row.meaning}>
      <State of="changed" label={row.meaning} bare /> <Version of={row.from} /> → <Version of={row.to} />
    </span>
  )
}

function None({ asset }: { asset: string }) {
  return (
    <Empty title="No decision matches.">
      <p>
        Each time the workflow of {visible(asset)} is evaluated, the decision is stored with its evidence: run, hold or
        skip. Decisions are kept for <code>FRESHLINE_KEEP_DAYS</code>.
      </p>
    </Empty>
  )
}
