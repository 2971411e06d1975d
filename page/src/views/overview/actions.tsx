import { post, segment } from '../../api'
import { counted, quote, visible } from '../../format'
import { AssetLink, RunLink, WorkflowLink } from '../../parts/basics'
import { useCommands } from '../../parts/commands'
import { ask, type Field, type Question, type Values } from '../../parts/confirm'
import { onceKey } from '../../parts/requests'
import { href } from '../../router'
import { may } from '../../session'
import type { Cause } from '../../types'

/** The button of a cause: what ends it, if anything here can. `done` is called when it was done. */
export function NextButton({ cause, done }: { cause: Cause; done: () => void }) {
  const { action } = cause.next
  if (action === null) return null
  const what = visible(cause.workflowSlug ?? cause.assetId ?? action.target)
  if (action.type === 'approve') {
    // The page of the proposal shows what would run, and knows the revision that is approved.
    return <a class="button" href={href(['backfills', action.target])} aria-label={`Review the proposal for ${what}`}>Review</a>
  }
  const made = questionOf(cause, done)
  if (made === null) return null
  const allowed = may('operate')
  return (
    <button
      type="button" disabled={!allowed} aria-label={`${made.verb}: ${what}`}
      title={allowed ? undefined : 'This needs a token with the scope operate.'} onClick={() => ask(made)}
    >
      {made.verb}
    </button>
  )
}

/** Offer the actions of all causes in the search. */
export function useCauseCommands(causes: readonly Cause[], done: () => void): void {
  const offered = may('operate') ? causes.filter((one) => one.next.action !== null && one.next.action.type !== 'approve') : []
  useCommands(JSON.stringify(offered.map((one) => one.next.action)), () => offered.flatMap((cause) => {
    const made = questionOf(cause, done)
    return made === null ? [] : [{ label: made.title, hint: 'action', run: () => ask(made) }]
  }))
}

/** Return the question before the action of a cause; null if there is none here. */
function questionOf(cause: Cause, done: () => void): Question | null {
  const { action } = cause.next
  if (action === null || action.type === 'approve') return null
  const made = questions[action.type](action.target, cause)
  return {
    ...made,
    act: async (values) => {
      const said = await made.act(values)
      done()
      return said
    },
  }
}

const questions: Readonly<Record<'report' | 'run' | 'resume' | 'reset', (target: string, cause: Cause) => Question>> = {
  run: (slug, cause) => {
    const key = cause.partitionKey
    // A second try of the same question makes no second run.
    const once = onceKey()
    return {
      title: `Run ${visible(slug)}`,
      verb: 'Run',
      text: () => (
        <p>
          A run of <strong>{visible(slug)}</strong>{key === '' ? '' : ` for the partition ${visible(key)}`} is queued. It reads
          the current versions of its inputs, ignores holds and goes before automatic runs.
        </p>
      ),
      command: () => words('freshline run', slug, key === '' ? '' : `--partition ${quote(key)}`),
      act: async () => {
        const { id } = await post<{ id: string }>(`workflows/${segment(slug)}/run`, { partitionKey: key, key: once })
        return <>Queued the run <RunLink id={id} /> of <WorkflowLink slug={slug} />.</>
      },
    }
  },
  resume: (slug) => ({
    title: `End the pause of ${visible(slug)}`,
    verb: 'Resume',
    text: () => (
      <p>Automatic runs of <strong>{visible(slug)}</strong> start again. If its inputs changed meanwhile, one run catches up.</p>
    ),
    command: () => words('freshline resume', slug),
    act: async () => {
      await post(`workflows/${segment(slug)}/resume`)
      return <>The pause of <WorkflowLink slug={slug} /> ended.</>
    },
  }),
  reset: (slug, cause) => ({
    title: `Reset ${visible(slug)}`,
    verb: 'Reset',
    text: () => (
      <p>
        The cooldown of <strong>{visible(slug)}</strong> ends, its breaker closes and a cancellation is forgotten. It is tried
        again at once{cause.kind === 'failing' ? '. If the reason of its failure is still there, it fails again' : ''}.
      </p>
    ),
    command: () => words('freshline reset', slug),
    act: async () => {
      await post(`workflows/${segment(slug)}/reset`)
      return <><WorkflowLink slug={slug} /> was reset.</>
    },
  }),
  report: (assetId, cause) => report(assetId, cause),
}

const PATH: Field = { name: 'path', label: 'Path of its data', type: 'text', required: true, hint: 'This source names the data of each report.' }
const PARTITION: Field = { name: 'partition', label: 'Partition', type: 'text', required: true, hint: 'Such as 2026-01-31.' }
const VERSION: Field = {
  name: 'version', label: 'Data version (optional)', type: 'text',
  hint: 'If it is the same as before, nothing changed. Without it, every report counts as a change.',
}

function report(assetId: string, cause: Cause): Question {
  // The command that the server made says what a report of this source has to name.
  const command = cause.next.command ?? ''
  const once = onceKey()
  const fields = [...(command.includes('--partition') ? [PARTITION] : []), ...(command.includes('"path"') ? [PATH] : []), VERSION]
  return {
    title: `Report ${visible(assetId)}`,
    verb: 'Report',
    fields,
    text: () => (
      <p>
        Freshline is told that <strong>{visible(assetId)}</strong> has new data. It decides what has to run
        {cause.behind > 0 ? `: ${counted(cause.behind, 'asset is', 'assets are')} made from it` : ''}.
      </p>
    ),
    command: (values) => reportCommand(assetId, values),
    act: async (values) => {
      await post(`assets/${segment(assetId)}/produced`, { ...reportBody(values), key: once })
      return <>Reported <AssetLink id={assetId} />.</>
    },
  }
}

export function reportCommand(assetId: string, values: Values): string {
  const { partition = '', version = '', path = '' } = values
  return words(
    'freshline report', assetId,
    partition === '' ? '' : `--partition ${quote(partition)}`,
    version === '' ? '' : `--data-version ${quote(version)}`,
    path === '' ? '' : `--payload ${quote(JSON.stringify({ path }))}`,
  )
}

export function reportBody({ partition = '', version = '', path = '' }: Values): Record<string, unknown> {
  return {
    ...(partition === '' ? {} : { partitionKey: partition }),
    ...(version === '' ? {} : { dataVersion: version }),
    ...(path === '' ? {} : { payload: { path } }),
  }
}

/** Return a command line: the command, a name from users, and options that are quoted already. */
const words = (command: string, name: string, ...options: readonly string[]): string =>
  [command, quote(name), ...options.filter((one) => one !== '')].join(' ')
