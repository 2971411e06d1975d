import { Chart } from '../../parts/chart'
import { TIME, type Series } from '../../parts/chart-figures'
import { between } from '../../time'
import type { Run } from '../../types'

/** How long the last runs of a workflow took; failed ones are marked. */
export function RunTimes({ slug, runs }: { slug: string; runs: readonly Run[] }) {
  const { times, series } = timesOf(runs)
  return <Chart label="Run time" times={times} series={series} unit={TIME} together={slug} height={96} />
}

/** Return the ends of runs and how long each took. Those that were canceled or have not ended are left out. */
export function timesOf(runs: readonly Run[]): { times: number[]; series: Series[] } {
  const ended = runs.flatMap((run) => {
    const took = between(run.startedAt, run.finishedAt)
    const counts = run.status === 'succeeded' || run.status === 'failed'
    return took === null || !counts ? [] : [{ at: Date.parse(run.finishedAt!), took, failed: run.status === 'failed' }]
  }).sort((a, b) => a.at - b.at)
  return {
    times: ended.map((one) => one.at),
    series: [
      { name: ['succeeded', 'succeeded'], kind: 'line', values: ended.map((one) => (one.failed ? null : one.took)) },
      { name: ['failed', 'failed'], kind: 'crosses', values: ended.map((one) => (one.failed ? one.took : null)) },
    ],
  }
}
