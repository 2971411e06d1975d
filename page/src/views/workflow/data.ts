import { get, Problem, segment } from '../../api'
import { about, useLoad, type Loaded } from '../../load'
import { serverTime } from '../../time'
import type { Decision, FreshlineEvent, Page, PolicyStatus, Run, Workflow } from '../../types'

export interface WorkflowData {
  readonly workflow: Workflow
  /** Null of a retired workflow. */
  readonly policy: PolicyStatus | null
  readonly decision: Decision | null
  readonly runs: readonly Run[]
  readonly changes: readonly FreshlineEvent[]
  /** The states of what it reads and what it produces. */
  readonly states: Readonly<Record<string, string>>
}

const RUNS = 30

/** Read everything about a workflow, and again when something happens to it or to one of its assets. */
export function useWorkflow(slug: string): Loaded<WorkflowData> {
  const names = new Set<string>([slug])
  const loaded = useLoad<WorkflowData>(`workflow ${slug}`, async (stop) => {
    const path = `workflows/${segment(slug)}`
    const workflow = await get<Workflow>(path, {}, stop)
    const assets = [...new Set([...workflow.consumes, ...workflow.produces])].slice(0, 500)
    const [policy, decisions, runs, changes, states] = await Promise.all([
      get<PolicyStatus>(`${path}/auto-materialize`, {}, stop).catch(absent),
      get<Page<Decision>>('decisions', { workflow: slug, limit: 1 }, stop).catch(absent),
      get<Page<Run>>('runs', { workflow: slug, limit: RUNS }, stop),
      get<Page<FreshlineEvent>>('events', { type: 'workflow.definition.updated', subject: slug, limit: 20 }, stop),
      assets.length === 0 ? { states: {} }
        : get<{ states: Record<string, string> }>('assets/states', { asset: assets }, stop),
    ])
    if (policy !== null) serverTime(policy.at)
    return {
      workflow, policy, decision: decisions?.items[0] ?? null, runs: runs.items, changes: changes.items, states: states.states,
    }
  }, { events: (event) => about(...names)(event), everyMs: 15_000 })
  for (const one of [...(loaded.data?.workflow.consumes ?? []), ...(loaded.data?.workflow.produces ?? [])]) names.add(one)
  return loaded
}

function absent(error: unknown): null {
  if (error instanceof Problem && (error.status === 404 || error.status === 422)) return null
  throw error
}
