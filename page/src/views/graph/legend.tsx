import { count } from '../../format'
import { State } from '../../parts/basics'
import { setQuery } from '../../router'
import { ASSET_STATES } from '../../states'

/** How many of the shown assets are in which state; a state selects those that are in it. */
export function Legend({ counts, search }: { counts: ReadonlyMap<string, number>; search: string }) {
  const words = search.split(/\s+/).filter((one) => one !== '')
  const chosen = words.find((one) => one.startsWith('state:'))?.slice('state:'.length)
  const choose = (state: string): void => {
    const others = words.filter((one) => !one.startsWith('state:'))
    setQuery({ q: [...others, ...(chosen === state ? [] : [`state:${state}`])].join(' ') })
  }
  return (
    <div class="row graph-legend" role="group" aria-label="States of the shown assets">
      {ASSET_STATES.filter((state) => (counts.get(state) ?? 0) > 0 || state === chosen).map((state) => (
        <button
          key={state} type="button" class="small" aria-pressed={chosen === state} onClick={() => choose(state)}
          title={chosen === state ? 'Show all states again' : `Show only what is ${state}`}
        >
          <State of={state} /> {count(counts.get(state) ?? 0)}
        </button>
      ))}
    </div>
  )
}
