import { ASSET_STATES, look } from '../../states'
import { codeOf, needsAttention } from './model'

/** The colours of the theme. A canvas does not get them from style sheets. */
export interface Palette {
  readonly panel: string
  readonly raised: string
  readonly line: string
  readonly strong: string
  readonly text: string
  readonly quiet: string
  readonly accent: string
  /** By the number of the state. */
  readonly solid: readonly string[]
  readonly soft: readonly string[]
  /** Of cells without names: what needs attention is also darker, or brighter, than what does not. */
  readonly cells: readonly string[]
  readonly marks: readonly Path2D[]
  readonly mono: string
}

const QUIET_SHARE = 0.55

export function readPalette(): Palette {
  const style = getComputedStyle(document.documentElement)
  const value = (name: string, otherwise: string): string => style.getPropertyValue(name).trim() || otherwise
  const colours = ASSET_STATES.map((state) => look(state).colour)
  const panel = value('--panel', '#ffffff')
  const solid = colours.map((colour) => value(`--state-${colour}`, '#777777'))
  return {
    panel,
    cells: ASSET_STATES.map((state, code) => (
      needsAttention(codeOf(state)) ? solid[code]! : mixed(solid[code]!, panel, QUIET_SHARE))),
    raised: value('--raised', '#eee'),
    line: value('--line', '#ddd'),
    strong: value('--line-strong', '#bbb'),
    text: value('--text', '#111'),
    quiet: value('--quiet', '#555'),
    accent: value('--accent', '#06c'),
    solid,
    soft: colours.map((colour) => value(`--state-${colour}-soft`, '#eee')),
    marks: ASSET_STATES.map((state) => new Path2D(look(state).mark)),
    mono: value('--mono', 'monospace'),
  }
}

/** Return a colour between two that are written as #rgb or #rrggbb; otherwise the first. */
export function mixed(one: string, other: string, share: number): string {
  const a = channels(one)
  const b = channels(other)
  if (a === null || b === null) return one
  return `rgb(${a.map((value, at) => Math.round(value * share + b[at]! * (1 - share))).join(', ')})`
}

function channels(colour: string): number[] | null {
  const digits = /^#([0-9a-f]{3}|[0-9a-f]{6})$/i.exec(colour)?.[1]
  if (digits === undefined) return null
  const size = digits.length / 3
  return [0, 1, 2].map((at) => parseInt(digits.slice(at * size, (at + 1) * size).repeat(size === 1 ? 2 : 1), 16))
}
