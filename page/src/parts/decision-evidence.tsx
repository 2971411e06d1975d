import { counted, few, named, version, visible, words } from '../format'
import type { Blocker, Conclusion, Evidence, InputEvidence } from '../types'
import { AssetLink, RunLink, State, Time, WorkflowLink } from './basics'

/** Rows of one decision. Those that changed come first. */
const MOST = 20

/** The evidence of a decision: each input as it was read and as it is, and what else was considered. */
export function EvidenceOf({ one }: { one: Conclusion }) {
  const { evidence } = one
  const facts = listed(one, evidence)
  return (
    <div class="evidence">
      {evidence.inputs && evidence.inputs.length > 0 ? <Inputs inputs={evidence.inputs} /> : null}
      {facts.length === 0 ? null : (
        <dl class="facts">
          {facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
        </dl>
      )}
      {facts.length === 0 && (evidence.inputs ?? []).length === 0 ? <p class="quiet">This decision needs no evidence.</p> : null}
    </div>
  )
}

function Inputs({ inputs }: { inputs: readonly InputEvidence[] }) {
  const sorted = inputs.length <= MOST ? inputs : [...inputs.filter((one) => one.changed), ...inputs.filter((one) => !one.changed)]
  const shown = sorted.slice(0, MOST)
  return (
    <div class="evidence-inputs">
      <table>
        <thead><tr><th scope="col">Input</th><th scope="col">Last read</th><th scope="col">Now</th><th scope="col">Difference</th></tr></thead>
        <tbody>
          {shown.map((one) => (
            <tr key={named(one.assetId, one.partitionKey)}>
              <td><AssetLink id={one.assetId} partition={one.partitionKey} /></td>
              <td class="id">{visible(version(one.from))}</td>
              <td class="id">{visible(version(one.to))}</td>
              <td><Meaning input={one} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      {inputs.length > MOST ? <p class="quiet">and {counted(inputs.length - MOST, 'more input')}</p> : null}
    </div>
  )
}

function Meaning({ input }: { input: InputEvidence }) {
  if (input.retired) return <span>removed by retention</span>
  if (!input.changed) return <State of="identical" label="the same" />
  const times = input.changes > 1 ? `, ${counted(input.changes, 'version')}` : ''
  return <State of="changed" label={input.triggers ? `changed${times}` : `changed${times}, may not trigger`} />
}

function listed(one: Conclusion, evidence: Evidence) {
  const facts: [string, preact.ComponentChildren][] = []
  const add = (name: string, value: preact.ComponentChildren): void => {
    if (value !== null && value !== undefined && value !== '') facts.push([name, value])
  }
  const at = (time: string | undefined | null) => (time ? <Time at={time} clock /> : null)
  add('Cause', evidence.cause ? words(evidence.cause) : null)
  add('Output', evidence.assetId ? <AssetLink id={evidence.assetId} partition={one.partitionKey} /> : null)
  add('Expired', evidence.expiry ? <span>{at(evidence.expiry.expiresAt)} ({words(evidence.expiry.reason)})</span> : null)
  add('Edited', evidence.changes && evidence.changes.length > 0 ? visible(few(evidence.changes, 20)) : null)
  add('Run', evidence.runId ? <span class="row"><RunLink id={evidence.runId} />{evidence.runStatus ?? ''}</span> : null)
  add('Not needed any more', evidence.superseded ? <RunLink id={evidence.superseded} /> : null)
  add('Waits for', evidence.blockers && evidence.blockers.length > 0 ? <Blockers of={evidence.blockers} /> : null)
  add('Did not wait for', evidence.waitedOut && evidence.waitedOut.length > 0 ? <Blockers of={evidence.waitedOut} /> : null)
  add('Without data', evidence.missing && evidence.missing.length > 0 ? visible(few(evidence.missing, 20)) : null)
  add('Not changed yet', evidence.waitingFor && evidence.waitingFor.length > 0 ? visible(few(evidence.waitingFor, 20)) : null)
  add('Removed', evidence.retired && evidence.retired.length > 0 ? visible(few(evidence.retired, 20)) : null)
  add('Failures', evidence.failures)
  add('Open since', at(evidence.openedAt))
  add('Next try', at(evidence.nextProbeAt))
  add('Frozen since', at(evidence.frozenAt))
  add('Until', at(evidence.until))
  add('At the latest', at(evidence.deadline))
  add('Also held by', evidence.alsoHeldBy && evidence.alsoHeldBy.length > 0 ? few(evidence.alsoHeldBy.map(words), 10) : null)
  add('Error', evidence.error ? visible(evidence.error) : null)
  return facts
}

function Blockers({ of }: { of: readonly Blocker[] }) {
  return (
    <ul class="plain">
      {of.map((one) => (
        <li key={named(one.workflowSlug, one.partitionKey)}>
          <WorkflowLink slug={one.workflowSlug} partition={one.partitionKey} /> <span class="quiet">{visible(words(one.motion))}</span>
          {one.until ? <> until <Time at={one.until} clock /></> : null}
        </li>
      ))}
    </ul>
  )
}
