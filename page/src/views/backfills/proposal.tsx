import { counted, short, visible } from '../../format'
import { AssetLink, Panel, State, Time } from '../../parts/basics'
import { href } from '../../router'
import { may } from '../../session'
import type { BackfillDetail } from '../../types'
import { askApprove, askDeny } from './actions'
import { Cost } from './cost'
import { reasonText } from './text'

/** A proposal that waits for a yes or a no: why it exists, and what it costs. */
export function Proposal({ proposal, done, linked = true }: { proposal: BackfillDetail; done: () => void; linked?: boolean }) {
  return (
    <Panel
      class="proposal"
      title={<><State of="proposed" /> <AssetLink id={proposal.assetId} tab="partitions" /></>}
      note={(
        <>
          since <Time at={proposal.requestedAt} />, revision {proposal.revision}
          {linked ? <>, <a class="id" href={href(['backfills', proposal.id])}>{short(proposal.id)}</a></> : null}
        </>
      )}
      actions={may('operate') ? (
        <>
          <button type="button" class="primary" onClick={() => askApprove(proposal, done)}>Approve…</button>
          <button type="button" onClick={() => askDeny(proposal, done)}>Deny…</button>
        </>
      ) : <span class="quiet">An answer needs the scope operate.</span>}
    >
      <p>{counted(proposal.progress.total, 'old partition')} would run. That is more than run by themselves, so none of them runs until somebody answers.</p>
      <ul class="proposal-reasons">{(proposal.reasons ?? []).map((one) => <li key={reasonText(one)}>{visible(reasonText(one))}</li>)}</ul>
      {proposal.cost === null ? null : <Cost preview={proposal.cost} concurrency={proposal.concurrency} partial={proposal.partial} />}
    </Panel>
  )
}
