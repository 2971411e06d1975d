import { get, segment } from '../../api'
import { counted, named } from '../../format'
import { useLoad } from '../../load'
import { AssetLink, Empty, Failed, Panel, Skeleton } from '../../parts/basics'
import { Fates } from '../../parts/fates'
import { href } from '../../router'
import type { EventDetail, FreshlineEvent, Page, RunDetail, RunOutput } from '../../types'

/** Outputs whose effects are looked up; a batch may have hundreds. */
const MOST = 12

interface Effect {
  readonly output: RunOutput
  /** null: the event is not retained any more. */
  readonly event: EventDetail | null
}

/** What a run set off: the fate of each of its outputs at each consumer, and the runs that it made unnecessary. */
export function Caused({ run }: { run: RunDetail }) {
  const outputs = run.outputs.slice(0, MOST)
  const effects = useLoad(`effects ${run.id} ${run.outputs.length}`, (stop) => readEffects(run, outputs, stop), {
    enabled: outputs.length > 0,
    events: (event) => event.type.startsWith('workflow.run.'),
  })
  if (run.status !== 'succeeded') return null
  const found = effects.data ?? []
  return (
    <Panel title="What it caused" note={effects.data === null ? undefined : summary(found)}>
      {effects.error === null ? null : <Failed error={effects.error} retry={effects.reload} />}
      {outputs.length === 0 ? <Empty title="Nothing: it published nothing." />
        : effects.data === null ? (effects.error === null ? <Skeleton lines={3} /> : null)
        : found.map((one) => <OneEffect key={named(one.output.assetId, one.output.partitionKey)} effect={one} />)}
      {run.outputs.length > MOST ? <p class="quiet">{counted(run.outputs.length - MOST, 'more output')} not looked up</p> : null}
    </Panel>
  )
}

function OneEffect({ effect: { output, event } }: { effect: Effect }) {
  return (
    <section class="edge run-effect">
      <h3>
        <AssetLink id={output.assetId} partition={output.partitionKey} />
        <span class="quiet"> {output.changed ? 'changed' : 'is identical to the version before'}</span>
        {event === null ? null : <a class="run-event" href={href(['events', event.id])}>event</a>}
      </h3>
      {event === null ? <p class="quiet">Its event is not retained any more.</p>
        : event.consumers === 0 ? <p class="quiet">No workflow consumes it.</p>
        : <Fates fates={event.fates} consumers={event.consumers} label={`Outcomes for ${output.assetId}`} />}
    </section>
  )
}

/** Return the effects in a few words: runs that were caused, and runs that identical data made unnecessary. */
export function summary(effects: readonly Effect[]): string {
  const fates = effects.flatMap((one) => one.event?.fates ?? [])
  const caused = new Set(fates.filter((one) => one.fate === 'triggered' && one.runId).map((one) => one.runId))
  const avoided = fates.filter((one) => one.fate === 'ignored' && one.reason === 'unchanged').length
  const parts = [`${counted(caused.size, 'run')} triggered`]
  if (avoided > 0) parts.push(`${counted(avoided, 'run')} avoided because the data is identical`)
  return parts.join(', ')
}

async function readEffects(run: RunDetail, outputs: readonly RunOutput[], stop: AbortSignal): Promise<Effect[]> {
  return Promise.all(outputs.map(async (output) => {
    const id = output.eventId ?? (await findEvent(run, output, stop))
    if (id === null) return { output, event: null }
    try {
      return { output, event: await get<EventDetail>(`events/${segment(id)}`, { limit: 100 }, stop) }
    } catch (error) {
      if (stop.aborted) throw error
      return { output, event: null }
    }
  }))
}

/** Find the event of an output: it was stored in the transaction that ended the run. */
async function findEvent(run: RunDetail, output: RunOutput, stop: AbortSignal): Promise<string | null> {
  if (run.finishedAt === null) return null
  const end = Date.parse(run.finishedAt)
  const page = await get<Page<FreshlineEvent>>('events', {
    type: 'asset.produced', subject: output.assetId, limit: 1000,
    since: new Date(end - 2000).toISOString(), until: new Date(end + 2000).toISOString(),
  }, stop)
  const mine = page.items.find((one) => one.data.runId === run.id && (one.data.partitionKey ?? '') === output.partitionKey)
  return mine?.id ?? null
}
