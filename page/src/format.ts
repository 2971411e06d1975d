/** Texts for numbers, versions, ids and names. */

export const count = (n: number): string => n.toLocaleString('en-US')

/** Return a count with its noun: 1 run, 2 runs. */
export function counted(n: number, noun: string, many = `${noun}s`): string {
  return `${count(n)} ${n === 1 ? noun : many}`
}

export function bytes(n: number | null | undefined): string {
  if (n === null || n === undefined) return '–'
  if (n < 1024) return `${n} B`
  const units = ['KB', 'MB', 'GB', 'TB', 'PB']
  let value = n
  let unit = -1
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`
}

export const rows = (n: number | null | undefined): string => (n === null || n === undefined ? '–' : count(n))

/** Return the short form of an id: its last eight characters, as the commands print it. */
export const short = (id: string | null | undefined): string => (id ? id.slice(-8) : '–')

/** Return a data version as the commands print it: fingerprints and run ids are cut. */
export function version(text: string | null | undefined): string {
  if (text === null || text === undefined) return '–'
  return /^(fp\d+|run|sha256):[0-9a-f-]{12,}/.test(text) ? `${text.slice(0, text.indexOf(':') + 9)}…` : cut(text, 40)
}

export const cut = (text: string, most: number): string => (text.length <= most ? text : `${text.slice(0, most - 1)}…`)

/** Return the first line of an error. */
export function firstLine(text: string | null | undefined): string {
  const line = (text ?? '').trim().split('\n')[0] ?? ''
  return line === '' ? 'no error was stored' : cut(line, 500)
}

export const named = (assetId: string, partitionKey: string | null | undefined): string =>
  partitionKey ? `${assetId}@${partitionKey}` : assetId

export const words = (code: string): string => code.replaceAll('-', ' ')

export function list(parts: readonly string[]): string {
  if (parts.length < 2) return parts[0] ?? ''
  return `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`
}

export function few(parts: readonly string[], most = 3): string {
  return list(parts.length <= most ? parts : [...parts.slice(0, most), `${count(parts.length - most)} more`])
}

/** Return patterns as a text; `*` is everything. */
export const selection = (patterns: readonly string[], everything: string): string =>
  (patterns.length === 1 && patterns[0] === '*' ? everything : visible(few(patterns)))

/** Return a word as a shell takes it. Names come from users, and a copied line must do what it shows. */
export function quote(word: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${visible(word).replaceAll("'", `'\\''`)}'`
}

/**
 * Return text with control characters made visible. A line break in a copied command would run its first half, and an
 * escape or a direction mark in a name or log line may hide what follows.
 */
export function visible(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (one) =>
    one.codePointAt(0)! < 0x20 ? String.fromCharCode(0x2400 + one.codePointAt(0)!) : '\ufffd')
}

/** Return a log line as text: colours of terminals are removed, tabs stay, other control characters are visible. */
export function logText(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, '').split('\t').map(visible).join('\t')
}
