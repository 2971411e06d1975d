import { visible } from '../../format'

const WORDS: Readonly<Record<string, (names: string) => string>> = {
  added: (names) => `+ ${names}`,
  removed: (names) => `− ${names}`,
  retyped: (names) => names,
  order: (names) => `columns in the order ${names}`,
  rows: (names) => `rows ${names}`,
  columns: (names) => `values of ${names}`,
  rolledBack: (names) => `a rollback to version ${names}`,
}

/** Return how a version differs from the one before: `+ day date; values of n, delay`. */
export function differenceText(difference: Record<string, string[]> | null): string {
  return Object.entries(difference ?? {})
    .map(([kind, names]) => (WORDS[kind] ?? ((text: string) => `${kind} ${text}`))(names.map(visible).join(', ').replaceAll(' -> ', ' → ')))
    .join('; ')
}
