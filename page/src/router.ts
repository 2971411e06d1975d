import { computed, signal } from '@preact/signals'

/**
 * Hash routes: `#/assets/flights.clean?tab=history`.
 *
 * The address holds the whole view: filters, tabs, selections and zoom. A reload or a link to somebody shows the same.
 * Only the part after `#` is used, so the page works under any path prefix and the server needs no routes for it.
 */
export interface Route {
  /** The decoded segments of the path; [] is the first page. */
  readonly path: readonly string[]
  readonly query: Readonly<Record<string, string>>
}

export type Query = Record<string, string | number | boolean | null | undefined>

/** Parse the part of an address after `#`. Text that cannot be decoded is kept as it is. */
export function parse(hash: string): Route {
  const text = hash.replace(/^#/, '')
  const cut = text.indexOf('?')
  const path = cut < 0 ? text : text.slice(0, cut)
  const query: Record<string, string> = {}
  if (cut >= 0) {
    for (const [name, value] of new URLSearchParams(text.slice(cut + 1))) query[name] = value
  }
  return { path: path.split('/').filter((part) => part !== '').map(decode), query }
}

/** Return the address of a view. Empty, null and undefined values of the query are left out. */
export function href(path: readonly string[], query: Query = {}): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== '' && value !== false) search.set(name, String(value))
  }
  const rest = search.toString()
  return `#/${path.map(encodeURIComponent).join('/')}${rest === '' ? '' : `?${rest}`}`
}

export const route = signal<Route>(parse(globalThis.location?.hash ?? ''))

/** The path as one text: a new value means another view, not only another filter. */
export const place = computed(() => JSON.stringify(route.value.path))

/** Go to a view, as a new entry of the browser's history. */
export function go(path: readonly string[], query: Query = {}): void {
  location.hash = href(path, query)
}

/**
 * Change parts of the current view's query. By default the entry of the history is replaced: typing into a filter
 * should not need ten steps back.
 */
export function setQuery(changes: Query, { push = false }: { push?: boolean } = {}): void {
  const target = href(route.value.path, { ...route.value.query, ...changes })
  if (push) {
    location.hash = target
    return
  }
  // The state of the entry stays: it says where the page was scrolled to.
  history.replaceState(history.state, '', target)
  route.value = parse(target)
}

/** Follow the browser's address. Return a function that stops it. */
export function start(): () => void {
  const follow = (): void => {
    route.value = parse(location.hash)
  }
  follow()
  addEventListener('hashchange', follow)
  return () => removeEventListener('hashchange', follow)
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
