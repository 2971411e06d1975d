import { count, visible } from '../../format'
import type { Progress, Run } from '../../types'
import { Bar } from '../../parts/basics'

export interface Standing {
  readonly step: string | null
  readonly done: number | null
  /** null: the amount of work is not known. */
  readonly total: number | null
  readonly text: string
}

/** Return how much is done: what the job reports, else Spark's tasks. */
export function standing(progress: Progress | null): Standing {
  const step = progress?.step ?? null
  const job = progress?.job
  if (job && job.done !== null) {
    return { step, done: job.done, total: job.total, text: `${amount(job.done, job.total)} reported by the job` }
  }
  const spark = progress?.spark
  if (spark?.done === undefined) return { step, done: null, total: null, text: '' }
  const stages = spark.stages ?? 0
  const running = stages > 0 ? `, ${stages} ${stages === 1 ? 'stage' : 'stages'} running` : ''
  return { step, done: spark.done, total: spark.total ?? null, text: `${amount(spark.done, spark.total)} tasks of Spark${running}` }
}

const amount = (done: number, total: number | null | undefined): string =>
  total === null || total === undefined ? count(done) : `${count(done)} of ${count(total)}`

/** What a running run does now. Workers store it with their heartbeat, so it is up to three seconds old. */
export function LiveProgress({ run }: { run: Run }) {
  if (run.status !== 'running') return null
  const { step, done, total, text } = standing(run.progress)
  const current = step ?? run.steps.findLast((one) => one.status === 'running')?.stepId ?? null
  return (
    <div class="run-progress" role="status">
      <span>
        {current === null ? 'A worker prepares it.' : <>Step <strong>{visible(current)}</strong></>}
        {text === '' ? null : <span class="quiet"> {text}</span>}
      </span>
      {done !== null && total !== null && total > 0 ? <Bar value={done} of={total} label={`Progress of the step: ${text}`} /> : null}
    </div>
  )
}
