import { visible } from '../../format'
import { Panel, Time } from '../../parts/basics'
import { Copy } from '../../parts/cli'
import { href, route } from '../../router'
import type { FreshlineEvent, Workflow } from '../../types'
import { toYaml } from './yaml'

/** The definition as text. The store keeps its meaning, not the file, so comments and the order of fields are gone. */
export function Definition({ workflow }: { workflow: Workflow }) {
  const { query, path } = route.value
  const json = query.format === 'json'
  const content = json ? JSON.stringify(workflow.definition, null, 2) : toYaml(workflow.definition)
  const format = (name: string): string => href(path, { ...query, format: name })
  return (
    <Panel
      title="Definition" note={place(workflow)}
      actions={(
        <>
          <a class="button small" href={format('')} aria-current={json ? undefined : 'true'}>YAML</a>
          <a class="button small" href={format('json')} aria-current={json ? 'true' : undefined}>JSON</a>
          <Copy text={content} label="Copy the definition" />
        </>
      )}
    >
      <pre class="box definition" tabIndex={0} role="region" aria-label="Definition">{content.trimEnd().split('\n').map(visible).join('\n')}</pre>
      <p class="quiet">
        It is what was applied, with durations in milliseconds as JSON. Comments and the order of the fields are in the
        file. The page never writes definitions: change the file, then run <code>freshline apply</code>.
      </p>
    </Panel>
  )
}

/** Return where a workflow is declared: the file, and the line if it is known. */
export function place(workflow: Workflow): string {
  if (workflow.sourceFile === null) return 'its file is not known'
  const line = workflow.sourceLine ?? null
  return visible(line === null ? workflow.sourceFile : `${workflow.sourceFile}:${line}`)
}

const CHANGES: Readonly<Record<string, string>> = {
  added: 'was added', changed: 'was changed', retired: 'was retired', removed: 'was retired', revived: 'was added again',
}

export function Versions({ workflow, changes }: { workflow: Workflow; changes: readonly FreshlineEvent[] }) {
  return (
    <Panel title="Versions" note={`version ${workflow.workflowVersion} is current`}>
      {changes.length === 0 ? (
        <p>Applied <Time at={workflow.appliedAt} />. Older changes are not kept.</p>
      ) : (
        <ul class="plain stack">
          {changes.map((one) => {
            const change = typeof one.data.change === 'string' ? one.data.change : ''
            return (
              <li key={one.id} class="row">
                <Time at={one.time} age={false} />
                <span>it {CHANGES[change] ?? visible(change)}</span>
                <a href={href(['events', one.id])}>event</a>
              </li>
            )
          })}
        </ul>
      )}
    </Panel>
  )
}
