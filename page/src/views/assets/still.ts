/** How the rows that are shown differ from those that would be shown now. */
export interface Difference {
  readonly joined: number
  readonly left: number
}

/** Compare two orders; null if they are equal. */
export function difference(shown: readonly string[], wanted: readonly string[]): Difference | null {
  if (shown === wanted || (shown.length === wanted.length && shown.every((id, index) => wanted[index] === id))) return null
  const before = new Set(shown)
  const after = new Set(wanted)
  const joined = wanted.filter((id) => !before.has(id)).length
  const left = shown.filter((id) => !after.has(id)).length
  return { joined, left }
}
