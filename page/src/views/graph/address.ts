import { quote } from '../../format'
import type { Query } from '../../router'
import type { Grouping } from './arrange'
import type { View } from './camera'
import { isPattern } from './selection'
import type { Mode } from './shown'

/** What the address says: a reload and a link show the same part of the same graph. */
export interface Address {
  readonly mode: Mode
  readonly search: string
  readonly focus: string
  /** How far a neighbourhood goes. */
  readonly steps: number
  /** Null: frames for many assets, none for few. */
  readonly grouping: Grouping | null
  /** Null: everything that is shown is fitted in. */
  readonly view: View | null
}

const MODES: readonly string[] = ['attention', 'near', 'all']
const GROUPINGS: readonly string[] = ['none', 'prefix', 'boxes']
export const STEPS: readonly (readonly [string, string])[] = [
  ['1', '1 step'], ['2', '2 steps'], ['3', '3 steps'], ['5', '5 steps'], ['all', 'all steps'],
]
const FEW_STEPS = 2

export function readAddress(query: Readonly<Record<string, string>>): Address {
  const mode = query.show ?? ''
  const grouping = query.groups ?? ''
  const steps = query.steps === 'all' ? Infinity : Number(query.steps ?? FEW_STEPS)
  return {
    mode: MODES.includes(mode) ? mode as Mode : 'attention',
    search: query.q ?? '',
    focus: query.focus ?? '',
    steps: Number.isNaN(steps) || steps < 1 ? FEW_STEPS : steps,
    grouping: GROUPINGS.includes(grouping) ? grouping as Grouping : null,
    view: readView(query),
  }
}

function readView(query: Readonly<Record<string, string>>): View | null {
  const [zoom, x, y] = [query.zoom, query.x, query.y].map((one) => (one === undefined ? NaN : Number(one)))
  return [zoom, x, y].every((one) => Number.isFinite(one)) && zoom! > 0 ? { zoom: zoom!, x: x!, y: y! } : null
}

/** Return the part of the address that says where the camera is. */
export function viewQuery(view: View | null): Query {
  return view === null
    ? { zoom: '', x: '', y: '' }
    : { zoom: Number(view.zoom.toPrecision(4)), x: Math.round(view.x), y: Math.round(view.y) }
}

export const sameView = (one: View | null, other: View | null): boolean =>
  JSON.stringify(viewQuery(one)) === JSON.stringify(viewQuery(other))

/** Return the command that says the same. */
export function commandFor(address: Address): string {
  const words = address.search.split(/\s+/).filter((one) => one !== '')
  const [word = ''] = words
  const bare = word.replace(/^\+|\+$/g, '')
  if (address.mode === 'near' && address.focus !== '') return `freshline graph ${quote(address.focus)}`
  if (words.length === 1 && !/^(state|group):/.test(word)) {
    return bare !== word && !isPattern(bare) ? `freshline graph ${quote(bare)}` : `freshline status ${quote(bare)}`
  }
  return address.mode === 'all' && words.length === 0 ? 'freshline graph' : 'freshline status'
}
