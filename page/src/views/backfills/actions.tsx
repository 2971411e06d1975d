import { signal } from '@preact/signals'
import { get, post, Problem, segment } from '../../api'
import { counted, short, visible } from '../../format'
import { ask } from '../../parts/confirm'
import { may } from '../../session'
import type { Backfill, BackfillDetail } from '../../types'
import { reasonText } from './text'

/** Answers to a proposal, and what can be done with a backfill. */
type Done = () => void

const path = (one: Backfill, verb: string): string => `backfills/${segment(one.id)}/${verb}`

export const askApprove = (proposal: BackfillDetail, done: Done): void => askAnswer(proposal, 'approve', done)
export const askDeny = (proposal: BackfillDetail, done: Done): void => askAnswer(proposal, 'deny', done)

/** Ask with the revision that is shown. If it grew since, nothing is done, and the question shows the new one. */
function askAnswer(proposal: BackfillDetail, verb: 'approve' | 'deny', done: Done): void {
  const shown = signal(proposal)
  ask({
    title: `${verb === 'approve' ? 'Approve' : 'Deny'} the proposal for ${visible(proposal.assetId)}`,
    verb: verb === 'approve' ? 'Approve' : 'Deny',
    dangerous: verb === 'deny',
    text: () => (
      <>
        <p>
          {verb === 'approve' ? (
            <>
              {counted(shown.value.progress.total, 'partition')} will be computed, {counted(shown.value.concurrency, 'run')} at a
              time. It becomes an active backfill, requested now.
            </>
          ) : (
            <>
              {counted(shown.value.progress.total, 'partition')} will stay as they are. The versions that the proposal lists
              cause no run any more; any other version does. They are still shown as stale.
            </>
          )}
        </p>
        <ul>{(shown.value.reasons ?? []).map((one) => <li key={reasonText(one)}>{visible(reasonText(one))}</li>)}</ul>
        <p class="quiet">Revision {shown.value.revision}</p>
      </>
    ),
    command: () => `freshline backfill ${verb} ${short(proposal.id)} --revision ${shown.value.revision}`,
    act: async () => {
      try {
        await post(path(proposal, verb), { revision: shown.value.revision })
      } catch (error) {
        if (!(error instanceof Problem) || error.status !== 409) throw error
        done()
        throw new Error(await grown(shown, error.detail))
      }
      done()
      return verb === 'approve' ? 'The proposal was approved: its partitions are computed now.' : 'The proposal was denied: its partitions stay as they are.'
    },
  })
}

async function grown(shown: { value: BackfillDetail }, otherwise: string): Promise<string> {
  const before = shown.value
  const found = await get<BackfillDetail>(`backfills/${segment(before.id)}`)
  shown.value = found
  if (found.status !== 'proposed') return `It is ${found.status} now: somebody answered it, or its partitions are not stale any more.`
  return found.revision === before.revision ? otherwise
    : `It grew while you looked at it, so nothing was done: it had ${counted(before.progress.total, 'partition')} with revision ` +
      `${before.revision}. What is shown above is the new one; answer again if you still want it.`
}

/** The buttons that a backfill has in its status. */
export function BackfillActions({ backfill, done }: { backfill: Backfill; done: Done }) {
  if (!may('operate')) return null
  const { status, progress } = backfill
  const open = status === 'active' || status === 'paused'
  const troubled = progress.failed + progress.refused > 0 && status !== 'canceled' && status !== 'denied' && status !== 'proposed'
  return (
    <>
      {status === 'active' ? <button type="button" onClick={() => askPause(backfill, done)}>Pause…</button> : null}
      {status === 'paused' ? <button type="button" class="primary" onClick={() => askResume(backfill, done)}>Resume…</button> : null}
      {troubled ? <button type="button" onClick={() => askRetry(backfill, done)}>Retry…</button> : null}
      {open ? <button type="button" class="danger" onClick={() => askCancel(backfill, done)}>Cancel…</button> : null}
    </>
  )
}

function askPause(one: Backfill, done: Done): void {
  ask({
    title: `Pause backfill ${short(one.id)}`, verb: 'Pause',
    text: () => (
      <p>
        Its queued runs end ({one.progress.queued} now), its running ones go on ({one.progress.running} now), and nothing
        new starts until it is resumed.
      </p>
    ),
    command: () => `freshline backfill pause ${short(one.id)}`,
    act: () => change(one, 'pause', {}, done, 'The backfill is paused.'),
  })
}

function askResume(one: Backfill, done: Done): void {
  ask({
    title: `Resume backfill ${short(one.id)}`, verb: 'Resume',
    text: () => <p>It goes on with the {counted(one.progress.rest + one.progress.waiting + one.progress.queued, 'partition')} that are left.</p>,
    command: () => `freshline backfill resume ${short(one.id)}`,
    act: () => change(one, 'resume', {}, done, 'The backfill goes on.'),
  })
}

function askRetry(one: Backfill, done: Done): void {
  ask({
    title: `Retry what failed in backfill ${short(one.id)}`, verb: 'Retry',
    text: () => <p>{counted(one.progress.failed + one.progress.refused, 'partition')} that failed or were refused are tried again, without their cooldowns.</p>,
    command: () => `freshline backfill retry ${short(one.id)}`,
    act: () => change(one, 'retry', {}, done, 'The failed partitions are tried again.'),
  })
}

function askCancel(one: Backfill, done: Done): void {
  ask({
    title: `Cancel backfill ${short(one.id)}`, verb: 'Cancel the backfill', dangerous: true,
    text: (values) => (
      <p>
        It ends. What is done stays done ({counted(one.progress.done, 'partition')}). Its queued runs end
        ({one.progress.queued} now), and its running ones {values.kill ? 'are stopped within seconds' : 'finish'}
        {' '}({one.progress.running} now).
      </p>
    ),
    fields: [{ name: 'kill', label: 'Stop its running runs too', type: 'checkbox' }],
    command: (values) => `freshline backfill cancel ${short(one.id)}${values.kill ? ' --kill' : ''}`,
    act: (values) => change(one, 'cancel', { kill: values.kill === 'yes' }, done, 'The backfill was canceled.'),
  })
}

async function change(one: Backfill, verb: string, body: object, done: Done, said: string): Promise<string> {
  await post(path(one, verb), body)
  done()
  return said
}
