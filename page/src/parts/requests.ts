/** Return a key for a request that must not happen twice: made when the question is asked, and sent with each try. */
export function onceKey(): string {
  // `randomUUID` exists only on https and on loopback addresses.
  const random = crypto.getRandomValues(new Uint8Array(16))
  return `page-${[...random].map((one) => one.toString(16).padStart(2, '0')).join('')}`
}

/** Return a text of names as a list: separated by commas or spaces. */
export const names = (text: string): string[] => text.split(/[\s,]+/).filter((one) => one !== '')

/** Return an option of a command for each value. */
export const options = (flag: string, values: readonly string[], quote: (word: string) => string): string =>
  values.map((one) => ` ${flag} ${quote(one)}`).join('')
