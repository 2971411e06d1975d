import { bytes, firstLine, logText, rows, visible } from '../../format'
import { Empty, Panel, State, Took } from '../../parts/basics'
import { Table, type Column } from '../../parts/table'
import { duration } from '../../time'
import type { Run, Step } from '../../types'
import { href, route } from '../../router'
import { standing } from './progress'

const number = (value: unknown): string => (typeof value === 'number' ? rows(value) : '–')
const size = (value: unknown): string => (typeof value === 'number' ? bytes(value) : '–')

/** The tries of the steps of a run, with what they read and wrote. */
export function Steps({ run }: { run: Run }) {
  return (
    <Panel title="Steps">
      {run.steps.length === 0 ? <Empty title={NONE[run.status] ?? 'No step has begun.'} /> : (
        <Table items={run.steps} columns={columns(run)} label="Tries of the steps"
          id={(one) => `${one.attempt}.${one.stepId}.${one.try}`} />
      )}
    </Panel>
  )
}

const NONE: Readonly<Record<string, string>> = {
  queued: 'It waits for a worker.',
  running: 'The first step has not begun.',
  canceled: 'It was canceled before a step began.',
}

function columns(run: Run): readonly Column<Step>[] {
  const any = (name: string): boolean => run.steps.some((one) => typeof one.metrics?.[name] === 'number' && one.metrics[name] !== 0)
  const measured = (title: string, name: string, show: (value: unknown) => string): Column<Step>[] =>
    any(name) ? [{ title, number: true, cell: (one) => show(one.metrics?.[name]) }] : []
  const several = run.steps.some((one) => one.attempt > 1 || one.try > 1)
  return [
    { title: 'Step', cell: (one) => (
      <a class="name" title="Show only the log of this step" href={href(route.value.path, { ...route.value.query, step: one.stepId })}>{visible(one.stepId)}</a>
    ) },
    { title: 'State', cell: (one) => <State of={one.status} /> },
    ...(several ? [{ title: 'Try', cell: (one: Step) => <span class="number">{one.try} of attempt {one.attempt}</span> }] : []),
    { title: 'Took', number: true, cell: (one) => {
      const measuredMs = one.metrics?.durationMs
      return typeof measuredMs === 'number' ? <span class="number">{duration(measuredMs)}</span> : <Took from={one.startedAt} to={one.finishedAt} />
    } },
    ...measured('Rows in', 'rowsIn', number),
    ...measured('Read', 'bytesIn', size),
    ...measured('Rows out', 'rowsOut', number),
    ...measured('Written', 'bytesOut', size),
    ...measured('Tasks', 'tasks', number),
    ...measured('Shuffled', 'shuffleWriteBytes', size),
    ...measured('Spilled', 'diskSpilledBytes', size),
    { title: 'Note', wide: true, cell: (one) => <Note run={run} step={one} /> },
  ]
}

function Note({ run, step }: { run: Run; step: Step }) {
  if (step.status === 'running' && run.status === 'running') return <span class="quiet">{standing(run.progress).text || 'it runs now'}</span>
  if (step.error) return <span class="bad">{logText(firstLine(step.error.message))}</span>
  const said = step.metrics?.progress
  if (typeof said === 'object' && said !== null && !Array.isArray(said) && typeof said.done === 'number') {
    const total = typeof said.total === 'number' ? said.total : null
    return <span class="quiet">{standing({ job: { done: said.done, total } }).text}</span>
  }
  return <span class="quiet">{step.status === 'lost' ? 'its worker was lost; another attempt repeats it' : '–'}</span>
}
