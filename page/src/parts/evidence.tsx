import type { ComponentChildren } from 'preact'
import { counted, version, visible, words } from '../format'
import { href } from '../router'
import type { AssetState, Blocker, Conclusion, Decision, RootCause } from '../types'
import { AssetLink, Facts, RunLink, Sentence, State, Time, WorkflowLink } from './basics'
import { conclusionText } from './conclusion'
import { holdEnd, inputRows, rootCauseStep, wouldRun, type InputRow } from './evidence-text'
import { Table } from './table'
import './evidence.css'

/** A decision as one line: its outcome as a mark, the sentence, when, how often, and its run. */
export function DecisionLine({ decision, current = false }: { decision: Decision; current?: boolean }) {
  return (
    <div class="decision-line">
      <State of={decision.outcome} bare />
      <div class="grow">
        <Sentence text={conclusionText(decision)} />
        <p class="quiet">
          <Time at={decision.at} clock />
          {decision.count > 1 ? <>, evaluated {counted(decision.count, 'time')}, last <Time at={decision.lastAt} clock /></> : null}
          {decision.runId === null ? null : <>, run <RunLink id={decision.runId} /></>}
          {decision.partitionKey === '' || current ? null : <>, partition <code>{visible(decision.partitionKey)}</code></>}
        </p>
      </div>
    </div>
  )
}

/** The evidence: the version of each input that the last success read, beside the current one. */
export function Inputs({ conclusion, label = 'Inputs' }: { conclusion: Conclusion; label?: string }) {
  const rows = inputRows(conclusion.evidence.inputs ?? [])
  if (rows.length === 0) return null
  return (
    <Table<InputRow>
      items={rows} label={label} id={(one) => `${one.assetId}@${one.partitionKey} ${one.count}`}
      current={(one) => one.changed}
      columns={[
        { title: 'Input', cell: (one) => <AssetLink id={one.assetId} partition={one.partitionKey} /> },
        { title: 'Last read', cell: (one) => <Version of={one.from} blank={one.count > 1} /> },
        { title: 'Now', cell: (one) => <Version of={one.to} blank={one.count > 1} /> },
        { title: 'Difference', cell: (one) => (
          one.changed ? <State of="changed" label={one.meaning} /> : <span class="quiet">{one.meaning}</span>) },
      ]}
    />
  )
}

export function Version({ of: text, blank = false }: { of: string | null; blank?: boolean }) {
  if (blank) return null
  return <code class="nowrap" title={text === null ? 'nothing was read' : visible(text)}>{visible(version(text))}</code>
}

/** What else a decision rests on: the cause, the end of the hold, blockers, other holds, changes of the definition. */
export function EvidenceFacts({ conclusion }: { conclusion: Conclusion }) {
  const { evidence } = conclusion
  const end = holdEnd(conclusion)
  const items: (readonly [string, ComponentChildren] | null)[] = [
    conclusion.outcome === 'hold' ? ['Held by', words(conclusion.reason)] : null,
    evidence.cause === undefined || evidence.cause === conclusion.reason ? null : ['Cause', words(evidence.cause)],
    end === null ? null : [evidence.deadline === undefined ? 'Until' : 'At the latest', <><Time at={end} clock /> <span class="quiet">(<Time at={end} />)</span></>],
    optional('Also held by', evidence.alsoHeldBy?.map(words)),
    evidence.blockers === undefined ? null : ['Waits for', <Blockers all={evidence.blockers} />],
    evidence.waitedOut === undefined ? null : ['Did not wait for', <Blockers all={evidence.waitedOut} />],
    evidence.expiry == null ? null : ['Expired', <>{evidence.expiry.reason} at <Time at={evidence.expiry.expiresAt} clock /></>],
    optional('Changed', evidence.changes),
    optional('Missing inputs', evidence.missing),
    optional('Waits for inputs', evidence.waitingFor),
    optional('Removed inputs', evidence.retired),
    evidence.failures === undefined ? null : ['Failures in a row', String(evidence.failures)],
    evidence.runId === undefined ? null : ['Run', <><RunLink id={evidence.runId} /> {evidence.runStatus}</>],
    evidence.backfillId === undefined ? null : ['Backfill', <a class="id" href={href(['backfills', evidence.backfillId])}>{evidence.backfillId.slice(-8)}</a>],
    evidence.frozenAt === undefined ? null : ['Frozen since', <Time at={evidence.frozenAt} clock />],
    evidence.error === undefined ? null : ['Error', visible(evidence.error)],
  ]
  return items.every((one) => one === null) ? null : <Facts items={items} />
}

function optional(name: string, texts: readonly string[] | undefined): readonly [string, ComponentChildren] | null {
  return texts === undefined || texts.length === 0 ? null : [name, texts.map(visible).join(', ')]
}

function Blockers({ all }: { all: readonly Blocker[] }) {
  return (
    <ul class="plain">
      {all.map((one) => (
        <li key={`${one.workflowSlug}@${one.partitionKey ?? ''}`}>
          <WorkflowLink slug={one.workflowSlug} partition={one.partitionKey} />{' '}
          <span class="quiet">{words(one.motion)}{one.until === null ? null : <> until <Time at={one.until} clock /></>}</span>
        </li>
      ))}
    </ul>
  )
}

/** What would make it run: for a hold all of the conditions, otherwise any of them. */
export function WouldRun({ conclusion, asset }: { conclusion: Conclusion; asset: AssetState | null }) {
  return (
    <ul class="would-run">
      {wouldRun(conclusion, asset).map((text) => <li key={text}><Sentence text={text} /></li>)}
    </ul>
  )
}

/** Where the trouble begins, with the next step. `act`: the button of its action, if the reader may. */
export function RootCauses({ causes, act }: {
  causes: readonly RootCause[]
  act?: (action: { type: string; target: string }) => ComponentChildren
}) {
  if (causes.length === 0) return null
  return (
    <ul class="plain root-causes">
      {causes.map((cause) => {
        const { sentence, next } = rootCauseStep(cause)
        return (
          <li key={`${cause.kind} ${cause.assetId} ${cause.workflowSlug} ${cause.partitionKey}`} class="root-cause">
            <p><strong>Root cause:</strong> <Sentence text={sentence} />{cause.runId === null ? null : <> (<a href={href(['runs', cause.runId])}>its run</a>)</>}</p>
            <div class="row">
              <span class="quiet">{next.text}:</span> <code>{next.command === null ? '' : visible(next.command)}</code>
              {next.action === null ? null : act?.(next.action)}
            </div>
          </li>
        )
      })}
    </ul>
  )
}

/** Said where a reader waits for a decision that nobody makes. */
export function NoMaterializer() {
  return (
    <p class="banner banner-warn">
      <span>
        No materializer is running, so nothing is decided and nothing runs by itself. Start{' '}
        <code>freshline materializer</code>, or <code>freshline dev</code>.
      </span>
    </p>
  )
}
