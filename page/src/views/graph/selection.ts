import { ASSET_STATES } from '../../states'
import { codeOf, reach, type GraphModel } from './model'

/**
 * The selection words of the search, joined by "and":
 *
 * - `flights.clean`: the asset or the workflow, as the commands take it; otherwise what contains the text
 * - `sales.*`: a pattern with `*`, `?` and `[…]`, as `freshline status` takes it
 * - `+NAME`, `NAME+`, `+NAME+`: also everything above, below, or both, as `freshline graph NAME` shows it
 * - `state:stale`, `state:failing,missing`: what is in one of these states
 * - `group:sales`: the assets of a group of the graph
 */
export interface Selection {
  readonly mask: Uint8Array
  readonly count: number
  /** Words that no asset matches, with what is wrong where that is known. */
  readonly unknown: readonly string[]
  /** Whether a word names states: what it selects changes while one looks. */
  readonly byState: boolean
}

/** Return what a search selects; without words, everything. */
export function select(model: GraphModel, states: Uint8Array, text: string): Selection {
  const mask = new Uint8Array(model.size).fill(1)
  const unknown: string[] = []
  let byState = false
  for (const word of text.split(/\s+/).filter((one) => one !== '')) {
    const found = new Uint8Array(model.size)
    if (word.startsWith('state:')) {
      byState = true
      unknown.push(...markStates(found, states, word.slice('state:'.length)))
    } else if (word.startsWith('group:')) {
      markGroup(found, model, word.slice('group:'.length))
    } else {
      markNames(found, model, word)
    }
    if (!found.includes(1) && !word.startsWith('state:')) unknown.push(word)
    for (let node = 0; node < mask.length; node += 1) mask[node]! &= found[node]!
  }
  return { mask, count: total(mask), unknown, byState }
}

export function total(mask: Uint8Array): number {
  let count = 0
  for (const one of mask) count += one
  return count
}

function markStates(found: Uint8Array, states: Uint8Array, text: string): string[] {
  const names = text.split(',').filter((one) => one !== '')
  const known: readonly string[] = ASSET_STATES
  const wanted = new Set(names.filter((one) => known.includes(one)).map(codeOf))
  for (let node = 0; node < found.length; node += 1) if (wanted.has(states[node]!)) found[node] = 1
  return names.filter((one) => !known.includes(one)).map((one) => `state:${one}`)
}

function markGroup(found: Uint8Array, model: GraphModel, name: string): void {
  const group = model.groups.indexOf(name)
  for (let node = 0; node < found.length; node += 1) if (model.group[node] === group) found[node] = 1
}

function markNames(found: Uint8Array, model: GraphModel, word: string): void {
  // An asset may be called "c++"; its own name goes before the meaning of the signs.
  const whole = model.numbers.has(word)
  const above = !whole && word.startsWith('+') && word.length > 1
  const below = !whole && word.endsWith('+') && word.length > 1
  const name = word.slice(above ? 1 : 0, below ? -1 : undefined)
  markName(found, model, name)
  if (!above && !below) return
  const seeds = found.slice()
  if (above) reach(found, model.inputs)
  if (below) {
    reach(seeds, model.outputs)
    for (let node = 0; node < found.length; node += 1) found[node]! |= seeds[node]!
  }
}

function markName(found: Uint8Array, model: GraphModel, name: string): void {
  const matches = isPattern(name) ? glob(name) : null
  if (matches === null) {
    const exact = model.numberOf(name)
    if (exact >= 0) found[exact] = 1
    for (const node of model.made.get(name) ?? []) found[node] = 1
    if (exact >= 0 || model.made.has(name)) return
  }
  const low = name.toLowerCase()
  for (const [node, id] of model.ids.entries()) {
    if (matches === null ? id.toLowerCase().includes(low) : matches(id)) found[node] = 1
  }
}

export const isPattern = (name: string): boolean => /[*?[]/.test(name)

type Token = '*' | { readonly has: (character: string) => boolean }

/**
 * Return a test for a pattern with the rules of Python's `fnmatchcase`, which the commands use. It takes time
 * proportional to the name and the pattern: a regular expression made from `*a*a*a*b` would not.
 */
export function glob(pattern: string): (name: string) => boolean {
  const tokens = tokenize(pattern)
  return (name) => {
    let at = 0
    let token = 0
    let star = -1
    let from = 0
    while (at < name.length) {
      const wanted = tokens[token]
      if (wanted === '*') {
        star = token
        from = at
        token += 1
      } else if (wanted !== undefined && wanted.has(name[at]!)) {
        at += 1
        token += 1
      } else if (star >= 0) {
        from += 1
        at = from
        token = star + 1
      } else return false
    }
    return tokens.slice(token).every((one) => one === '*')
  }
}

function tokenize(pattern: string): Token[] {
  const tokens: Token[] = []
  for (let at = 0; at < pattern.length; at += 1) {
    const one = pattern[at]!
    const end = one === '[' ? endOfSet(pattern, at) : -1
    if (one === '*') tokens.push('*')
    else if (one === '?') tokens.push({ has: () => true })
    else if (end > 0) {
      tokens.push(setOf(pattern.slice(at + 1, end)))
      at = end
    } else tokens.push({ has: (character) => character === one })
  }
  return tokens
}

/** Return where a set ends; -1 if the bracket is only a character. A `]` at the beginning is a member. */
function endOfSet(pattern: string, start: number): number {
  const first = start + (pattern[start + 1] === '!' ? 2 : 1)
  return pattern.indexOf(']', first + 1)
}

function setOf(text: string): Token {
  const not = text.startsWith('!')
  const members = not ? text.slice(1) : text
  const has = (character: string): boolean => {
    for (let at = 0; at < members.length; at += 1) {
      if (members[at + 1] === '-' && at + 2 < members.length) {
        if (character >= members[at]! && character <= members[at + 2]!) return true
        at += 2
      } else if (members[at] === character) return true
    }
    return false
  }
  return { has: (character) => has(character) !== not }
}
