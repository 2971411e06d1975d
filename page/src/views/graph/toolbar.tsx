import { useEffect, useRef } from 'preact/hooks'
import { setQuery } from '../../router'
import { STEPS, viewQuery, type Address } from './address'
import type { Grouping } from './arrange'
import type { Mode } from './shown'

const MODES: readonly (readonly [Mode, string, string])[] = [
  ['attention', 'Not fresh', 'What is not fresh, and what it is made from'],
  ['near', 'Neighbourhood', 'What is around the selected asset'],
  ['all', 'Everything', 'All assets'],
]
const GROUPINGS: readonly (readonly [Grouping, string])[] = [
  ['none', 'not grouped'], ['prefix', 'in frames'], ['boxes', 'as boxes'],
]
const TYPING_MS = 300

/** What is shown and how. Everything that is chosen here is in the address. */
export function Toolbar({ address, grouping, focused, found }: {
  address: Address
  grouping: Grouping
  focused: boolean
  /** Show what the search found. */
  found: () => void
}) {
  return (
    <div class="graph-bar">
      <h1>Graph</h1>
      <div class="row graph-modes" role="group" aria-label="What is shown">
        {MODES.map(([mode, name, title]) => (
          <button
            key={mode} type="button" title={title} aria-pressed={address.mode === mode}
            disabled={mode === 'near' && !focused && address.mode !== 'near'}
            onClick={() => setQuery({ show: mode === 'attention' ? '' : mode, ...viewQuery(null) }, { push: true })}
          >
            {name}
          </button>
        ))}
      </div>
      {address.mode === 'near' ? (
        <Choice
          label="Steps" value={address.steps === Infinity ? 'all' : String(address.steps)} options={STEPS}
          choose={(steps) => setQuery({ steps })}
        />
      ) : null}
      <Search text={address.search} found={found} />
      <Choice
        label="Groups" value={grouping} options={GROUPINGS}
        choose={(groups) => setQuery({ groups, ...viewQuery(null) })}
      />
    </div>
  )
}

function Choice({ label, value, options, choose }: {
  label: string
  value: string
  options: readonly (readonly [string, string])[]
  choose: (value: string) => void
}) {
  return (
    <label class="graph-choice">
      <span class="quiet">{label}</span>
      <select value={value} onChange={(event) => choose(event.currentTarget.value)}>
        {options.map(([one, name]) => <option key={one} value={one}>{name}</option>)}
      </select>
    </label>
  )
}

function Search({ text, found }: { text: string; found: () => void }) {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined)
  useEffect(() => () => clearTimeout(timer.current), [])
  const take = (value: string): void => {
    clearTimeout(timer.current)
    setQuery({ q: value.trim() })
  }
  return (
    <form class="graph-search" role="search" onSubmit={(event) => event.preventDefault()}>
      <input
        type="search" value={text} aria-label="Select assets" placeholder="sales.*  +name  name+  state:stale"
        spellcheck={false} autocomplete="off" aria-describedby="graph-words"
        onInput={(event) => {
          const { value } = event.currentTarget
          clearTimeout(timer.current)
          timer.current = setTimeout(() => take(value), TYPING_MS)
        }}
        onKeyDown={(event) => {
          if (event.key !== 'Enter') return
          take(event.currentTarget.value)
          found()
        }}
      />
      <details class="graph-words">
        <summary>Words</summary>
        <dl id="graph-words">
          <Word word="flights.clean" text="this asset or workflow; otherwise what contains the text" />
          <Word word="sales.*" text="a pattern with * ? [ ]" />
          <Word word="+name" text="also everything that it is made from" />
          <Word word="name+" text="also everything that is made from it" />
          <Word word="+name+" text="both" />
          <Word word="state:stale,failing" text="what is in one of these states" />
          <Word word="group:sales" text="the assets of a group" />
          <div><dt>and</dt><dd>Words with a space between them must all be true.</dd></div>
        </dl>
      </details>
    </form>
  )
}

function Word({ word, text }: { word: string; text: string }) {
  return <div><dt><code>{word}</code></dt><dd>{text}</dd></div>
}
