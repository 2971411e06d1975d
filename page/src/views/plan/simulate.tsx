import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { post } from '../../api'
import { counted, quote, visible } from '../../format'
import { useLoad } from '../../load'
import { Body, Empty, Panel } from '../../parts/basics'
import { Cli, Copy } from '../../parts/cli'
import { Needs } from '../../parts/scope'
import { route, setQuery } from '../../router'
import { may } from '../../session'
import { absolute } from '../../time'
import type { Simulation } from '../../types'
import { changesOf, question, type Question } from './fields'
import { PolicyForm } from './form'
import { OverTime } from './over-time'
import { Comparison, Holds, Workflows } from './result'

/** Another policy, on the changes of the last days. The question is in the address; a link asks the same again. */
export function Simulate() {
  const { query } = route.value
  const { question: wanted, problems } = question(query)
  const wrong = Object.keys(problems).length > 0
  // What was asked last. An address that asks is a link, the way back, or the button; editing a field ends that it asks.
  const asks = query.play === '1' && !wrong && may('operate')
  const asked = useSignal<Question | null>(asks ? wanted : null)
  const key = JSON.stringify(asked.value)
  const current = asked.value !== null && key === JSON.stringify(wanted)
  useEffect(() => {
    if (asks && !current) asked.value = wanted
  }, [asks, JSON.stringify(wanted)])
  const found = useLoad<Simulation>(`simulation ${key}`, () => post<Simulation>('simulate', asked.peek()), { enabled: asked.value !== null })
  const answer = useRef<HTMLDivElement>(null)
  const play = (): void => {
    // Enter in a field changes the address and then asks, before the view is drawn again.
    const latest = question(route.peek().query)
    if (Object.keys(latest.problems).length > 0 || !may('operate')) return
    if (key === JSON.stringify(latest.question)) found.reload()
    asked.value = latest.question
    setQuery({ play: '1' })
    // Below the fields, on a narrow screen.
    if (!matchMedia('(min-width: 901px)').matches) answer.current?.scrollIntoView()
  }
  return (
    <>
      <Needs scope="operate" to="simulate a policy" />
      <div class="simulate">
        <PolicyForm problems={problems} play={play} busy={asked.value !== null && found.loading} days={wanted.since} />
        <div ref={answer} class="simulate-answer" aria-busy={asked.value !== null && found.loading}>
          {asked.value === null ? <NothingAsked /> : (
            <>
              {current || found.data === null ? null : <p class="banner banner-warn">The question has changed since this answer. <button type="button" onClick={play}>Replay</button></p>}
              <Body from={found} lines={8}>{(one) => <Answer answer={one} />}</Body>
              {found.loading && found.data === null && found.error === null ? <p class="quiet">The last {wanted.since} are replayed. That may take up to 30 seconds.</p> : null}
            </>
          )}
        </div>
      </div>
      <Cli command={command(wanted)} />
    </>
  )
}

function Answer({ answer }: { answer: Simulation }) {
  const slugs = Object.keys(answer.yaml)
  return (
    <>
      <Panel
        title="Before and after"
        note={`${counted(answer.reports, 'report')} from ${absolute(answer.start).slice(0, 16)} to ${absolute(answer.end).slice(0, 16)} UTC, ${counted(answer.slots, 'slot')}`}
      >
        <Comparison answer={answer} />
        {answer.notes.length === 0 ? null : <ul class="plan-notes">{answer.notes.map((one) => <li key={one}>{visible(one)}</li>)}</ul>}
      </Panel>
      <OverTime answer={answer} />
      <Workflows answer={answer} />
      <Holds answer={answer} />
      {slugs.map((slug) => (
        <Panel key={slug} title={`The policy of ${visible(slug)} as YAML`} actions={<Copy text={answer.yaml[slug]!} label={`Copy as YAML: the policy of ${slug}`} caption="Copy as YAML" />}>
          <pre class="box" tabIndex={0} role="region" aria-label={`YAML of ${slug}`}>{answer.yaml[slug]!.split('\n').map(visible).join('\n')}</pre>
          <p class="quiet">These are the blocks of its policy with your changes. The page never writes definitions: put them into the file of the workflow, then run <code>freshline apply</code>.</p>
        </Panel>
      ))}
      <Assumptions />
    </>
  )
}

function NothingAsked() {
  const changed = Object.keys(changesOf(route.value.query)).length > 0
  return (
    <Panel title="What a simulation says">
      <Empty title={changed ? 'The changes are ready to be replayed.' : 'Choose a workflow and change a field of its policy.'}>
        <p>
          The reports of sources of the last days are replayed with the code that decides in production, once with the
          policies that are applied and once with yours. The answer compares runs, lag behind the sources, and slot hours.
          Nothing is changed: the page never writes definitions.
        </p>
      </Empty>
      <Assumptions />
    </Panel>
  )
}

function Assumptions() {
  return (
    <details class="plan-assumes">
      <summary>What a simulation assumes</summary>
      <ul class="plan-notes">
        <li>Everything is fresh at the start. Holds, queued runs and failures at that time are not copied.</li>
        <li>Each simulated run copies the duration, the failure and the change of a recorded run of its workflow, chosen by the seed.</li>
        <li>The given number of slots executes runs, the most urgent first. Workers never crash, and start runs without delay.</li>
        <li>Another policy changes when workflows run, not how long they take or how often their output is identical.</li>
        <li>Partitions are simulated. Of those that existed at the start, only those with data then have data; very old ones may be left out, and a note says so.</li>
        <li>Manual runs, pauses, recorded backfills, approvals of held partitions, retention and pools are not modelled.</li>
      </ul>
    </details>
  )
}

/** Return the command that says the same. It compares with a project, so the changes go into a copy of this one. */
function command(wanted: Question): string {
  const changed = Object.keys(wanted.workflows).length > 0
  const options = [`--since ${quote(wanted.since)}`, wanted.slots === 4 ? '' : `--slots ${wanted.slots}`, wanted.seed === 0 ? '' : `--seed ${wanted.seed}`, changed ? '--policy ../proposed' : '']
  return ['freshline simulate', ...options].filter(Boolean).join(' ')
}
