import type { ComponentType } from 'preact'

/** A view: it takes no properties, because everything that it shows is in the address. */
export type ViewModule = { readonly default: ComponentType }

export interface View {
  /** The name in the navigation, and the first word of the address. */
  readonly section: string
  /** Each view is a file of its own, loaded when it is first wanted. */
  readonly load: () => Promise<ViewModule>
  readonly title: string
  /** Uses the whole width and height of the window. */
  readonly full?: boolean
}

/** Views of one segment, such as `#/assets`. The empty one is the first page. */
const LISTS: Readonly<Record<string, View>> = {
  '': { section: '', title: 'Overview', load: () => import('./overview') },
  graph: { section: 'graph', title: 'Graph', load: () => import('./graph'), full: true },
  assets: { section: 'assets', title: 'Assets', load: () => import('./assets') },
  runs: { section: 'runs', title: 'Runs', load: () => import('./runs') },
  why: { section: 'why', title: 'Why', load: () => import('./why') },
  plan: { section: 'plan', title: 'Plan', load: () => import('./plan') },
  backfills: { section: 'backfills', title: 'Backfills', load: () => import('./backfills') },
  events: { section: 'events', title: 'Events', load: () => import('./events') },
  decisions: { section: 'decisions', title: 'Decisions', load: () => import('./decisions') },
  workers: { section: 'workers', title: 'Workers', load: () => import('./workers') },
  sources: { section: 'sources', title: 'Sources', load: () => import('./sources') },
  webhooks: { section: 'webhooks', title: 'Webhooks', load: () => import('./webhooks') },
  alerts: { section: 'alerts', title: 'Alerts', load: () => import('./alerts') },
  tokens: { section: 'tokens', title: 'Tokens', load: () => import('./tokens') },
  audit: { section: 'audit', title: 'Audit', load: () => import('./audit') },
}

/** Views of one thing, such as `#/assets/flights.clean`. */
const ITEMS: Readonly<Record<string, View>> = {
  assets: { section: 'assets', title: 'Asset', load: () => import('./asset') },
  workflows: { section: 'assets', title: 'Workflow', load: () => import('./workflow') },
  runs: { section: 'runs', title: 'Run', load: () => import('./run') },
  why: { section: 'why', title: 'Why', load: () => import('./why') },
  backfills: { section: 'backfills', title: 'Backfill', load: () => import('./backfills') },
  events: { section: 'events', title: 'Event', load: () => import('./event') },
}

/** Return the view of a path; null if there is none. */
export function viewOf(path: readonly string[]): View | null {
  const [section = ''] = path
  const views = path.length > 1 ? ITEMS : LISTS
  return path.length <= 2 && Object.hasOwn(views, section) ? views[section]! : null
}

/** What the header shows, and what is behind "More". */
export const MAIN: readonly string[] = ['', 'graph', 'assets', 'runs', 'backfills', 'events']
export const MORE: readonly string[] = ['why', 'plan', 'decisions', 'workers', 'sources', 'webhooks', 'alerts', 'tokens', 'audit']

/** Return the title of a section. */
export const titleOf = (section: string): string => LISTS[section]?.title ?? section

/** The letters that go to a page after `g`. */
export const LETTERS: Readonly<Record<string, string>> = {
  o: '', g: 'graph', a: 'assets', r: 'runs', b: 'backfills', e: 'events', w: 'why', p: 'plan', d: 'decisions',
}
