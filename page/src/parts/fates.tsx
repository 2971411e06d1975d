import { counted } from '../format'
import { href } from '../router'
import type { EventFate } from '../types'
import { RunLink, Sentence, State, Time, WorkflowLink } from './basics'
import { fateText } from './conclusion'
import { Table } from './table'
import '../views/lists.css'

/** What events did to the workflows that they concern. `of`: what the change was, if several are shown. */
export function Fates({ fates, label, consumers }: {
  fates: readonly EventFate[]
  label: string
  consumers?: number
}) {
  return (
    <>
      <Table items={fates} label={label} id={(one) => `${one.workflowSlug}@${one.partitionKey}`} columns={[
        { title: 'Workflow', cell: (one) => <WorkflowLink slug={one.workflowSlug} partition={one.partitionKey} /> },
        { title: 'Outcome', cell: (one) => <State of={one.fate} /> },
        { title: 'Because', wide: true, cell: (one) => <Why fate={one} /> },
        { title: 'Run', cell: (one) => (
          <div class="row">
            <RunLink id={one.runId} />
            {one.runStatus ? <State of={one.runStatus} /> : null}
          </div>
        ) },
      ]} />
      {consumers !== undefined && consumers > fates.length ? (
        <p class="quiet">and {counted(consumers - fates.length, 'more workflow')}</p>
      ) : null}
    </>
  )
}

function Why({ fate }: { fate: EventFate }) {
  return (
    <div class="fate">
      <Sentence text={fateText(fate)} />
      {fate.until ? <>; until <Time at={fate.until} clock /></> : null}
      {fate.supersededBy ? <> (<a href={href(['events', fate.supersededBy])}>the newer event</a>)</> : null}
      {fate.decisionId ? (
        <> · <a href={href(['decisions'], { workflow: fate.workflowSlug, partition: fate.partitionKey, open: fate.decisionId })}>decision</a></>
      ) : null}
    </div>
  )
}
