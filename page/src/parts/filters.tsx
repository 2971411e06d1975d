import { useEffect, useMemo, useRef } from 'preact/hooks'
import { route, setQuery } from '../router'

export interface Filter {
  readonly name: string
  readonly label: string
  /** The choices; without them it is a text. */
  readonly options?: readonly (readonly [string, string])[]
  readonly placeholder?: string
}

export const PERIODS: readonly (readonly [string, string])[] = [
  ['', 'any time'], ['1h', 'the last hour'], ['24h', 'the last day'], ['7d', 'the last week'], ['30d', 'the last 30 days'],
]

/** Return the start of a period such as 24h, as the API takes it. To the minute, so that it is a stable key. */
export function since(period: string | undefined): string | null {
  const match = /^(\d+)([mhd])$/.exec(period ?? '')
  if (match === null) return null
  const size = { m: 60_000, h: 3_600_000, d: 86_400_000 }[match[2] as 'm' | 'h' | 'd']
  const start = Date.now() - Number(match[1]) * size
  return new Date(Math.floor(start / 60_000) * 60_000).toISOString()
}

/** The start of a period for a listing: computed once, so that the listing does not start anew each minute. */
export const usePeriod = (period: string | undefined): string | null => useMemo(() => since(period), [period])

/** Filters of a view. Their values are in the address, so a reload or a link keeps them. */
export function Filters({ filters }: { filters: readonly Filter[] }) {
  const query = route.value.query
  const set = filters.some((one) => (query[one.name] ?? '') !== '')
  return (
    <form class="filters" role="search" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      {filters.map((one) => (
        <label key={one.name}>
          <span>{one.label}</span>
          {one.options === undefined
            ? <TextFilter filter={one} value={query[one.name] ?? ''} />
            : (
              <select value={query[one.name] ?? ''} onChange={(event) => setQuery({ [one.name]: event.currentTarget.value })}>
                {one.options.map(([value, label]) => <option key={value} value={value}>{label}</option>)}
              </select>
            )}
        </label>
      ))}
      {set ? (
        <button type="button" class="small" onClick={() => setQuery(Object.fromEntries(filters.map((one) => [one.name, ''])))}>
          Clear
        </button>
      ) : null}
    </form>
  )
}

/** A text filter: it takes effect a moment after the last key, not at every letter. */
function TextFilter({ filter, value }: { filter: Filter; value: string }) {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined)
  useEffect(() => () => clearTimeout(timer.current), [])
  const take = (text: string, wait: number): void => {
    clearTimeout(timer.current)
    timer.current = setTimeout(() => setQuery({ [filter.name]: text.trim() }), wait)
  }
  return (
    <input
      type="search" value={value} placeholder={filter.placeholder ?? ''} spellcheck={false}
      onInput={(event) => take(event.currentTarget.value, 350)}
      onKeyDown={(event) => event.key === 'Enter' && take(event.currentTarget.value, 0)}
    />
  )
}
