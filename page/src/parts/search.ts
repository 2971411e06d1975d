/** What the palette finds, without its surroundings. */
export interface Entry {
  readonly label: string
  readonly kind: string
  readonly go: () => void
}

/**
 * Return how well a text matches what was typed; 0 if it does not. The beginning of the name is best, then the
 * beginning of one of its words, then anything inside, then its letters in order.
 */
export function score(text: string, typed: string): number {
  const where = text.toLowerCase()
  const wanted = typed.toLowerCase()
  if (wanted === '') return 1
  if (where === wanted) return 6
  if (where.startsWith(wanted)) return 5
  const at = where.indexOf(wanted)
  if (at > 0) return /[\s._\-/]/.test(where[at - 1] ?? '') || where.includes(`.${wanted}`) ? 4 : 3
  const words = wanted.split(/\s+/).filter((one) => one !== '')
  if (words.length > 1 && words.every((one) => where.includes(one))) return 2
  return wanted.length > 1 && inOrder(where, wanted) ? 1 : 0
}

function inOrder(text: string, letters: string): boolean {
  let at = 0
  for (const letter of text) {
    if (letter === letters[at]) at += 1
    if (at === letters.length) return true
  }
  return false
}

/** Return the best entries for what was typed. Entries that match equally stay in their order. */
export function best(entries: readonly Entry[], typed: string, most = 50): readonly Entry[] {
  const text = typed.trim()
  const found = entries.map((entry) => ({ entry, points: score(entry.label, text) })).filter((one) => one.points > 0)
  if (text !== '') found.sort((a, b) => b.points - a.points || short(a.entry, b.entry, a.points))
  return found.slice(0, most).map((one) => one.entry)
}

/** Of names that match as well, the shorter one is nearer to what was typed. */
const short = (a: Entry, b: Entry, points: number): number => (points > 1 ? a.label.length - b.label.length : 0)
