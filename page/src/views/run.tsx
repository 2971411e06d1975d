import { useSignal } from '@preact/signals'
import { get, Problem, segment } from '../api'
import { named, short } from '../format'
import { useLoad } from '../load'
import { Empty, Failed, Heading, Panel, RunLink, Skeleton, State } from '../parts/basics'
import { Cli } from '../parts/cli'
import { Log } from '../parts/log'
import { href, route } from '../router'
import type { RunDetail } from '../types'
import { Actions } from './run/actions'
import { Caused } from './run/caused'
import { RunProblem } from './run/error'
import { RunFacts } from './run/facts'
import { Inputs } from './run/inputs'
import { Outputs } from './run/outputs'
import { LiveProgress } from './run/progress'
import { Steps } from './run/steps'
import './run.css'

/** Progress has no events: workers store it with their heartbeat. */
const PROGRESS_MS = 2000

/** One run: what it did, read, published and caused. */
export default function RunView() {
  const id = route.value.path[1] ?? ''
  const active = useSignal(true)
  const loaded = useLoad(`run ${id}`, (stop) => get<RunDetail>(`runs/${segment(id)}`, {}, stop), {
    events: (event) => typeof event.data.runId === 'string' && event.data.runId.endsWith(id),
    everyMs: active.value ? PROGRESS_MS : undefined,
  })
  const run = loaded.data
  active.value = run === null || run.status === 'queued' || run.status === 'running'
  if (run === null) {
    if (loaded.error === null) return <><Heading kind="run" title={short(id)} /><Skeleton lines={8} /></>
    const gone = loaded.error instanceof Problem && loaded.error.status === 404
    return (
      <>
        <Heading kind="run" title={short(id)} />
        {gone ? <NotFound /> : <Failed error={loaded.error} retry={loaded.reload} />}
      </>
    )
  }
  return (
    <>
      <Heading kind="run" title={named(run.workflowSlug, run.partitionKey)}
        aside={<><State of={run.status} /><span class="id" title={run.id}>{short(run.id)}</span></>}
        actions={<Actions run={run} changed={loaded.reload} />} />
      {loaded.error === null ? null : <Failed error={loaded.error} retry={loaded.reload} />}
      <LiveProgress run={run} />
      <RunProblem run={run} />
      <div class="run-top">
        <RunFacts run={run} />
        <div class="stack run-column">
          <Steps run={run} />
          <Panel title="Log">
            {run.batchId !== null && run.batchId !== run.id
              ? <p class="quiet">This is the log of the batch; run <RunLink id={run.batchId} /> leads it.</p> : null}
            <Log runId={run.id} active={active.value} />
          </Panel>
        </div>
      </div>
      <Inputs run={run} />
      <Outputs run={run} />
      <Caused run={run} />
      <Cli command={`freshline runs ${short(run.id)}`} />
      <Cli command={`freshline logs ${short(run.id)}${active.value ? ' --follow' : ''}`} />
    </>
  )
}

function NotFound() {
  return (
    <Empty title="There is no such run.">
      <p>Old runs are removed after <code>FRESHLINE_KEEP_DAYS</code>. <a href={href(['runs'])}>All runs</a></p>
    </Empty>
  )
}
