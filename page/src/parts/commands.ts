import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'

/** An action that the search palette offers while the view that registered it is shown. */
export interface Command {
  readonly label: string
  /** Why it is there, or what it will do: a few words. */
  readonly hint?: string
  readonly run: () => void
}

export const commands = signal<readonly Command[]>([])

/** Offer commands in the palette as long as the view is shown. `key` says when they are others. */
export function useCommands(key: string, made: () => readonly Command[]): void {
  useEffect(() => {
    const mine = made()
    commands.value = [...commands.peek(), ...mine]
    return () => {
      commands.value = commands.peek().filter((one) => !mine.includes(one))
    }
  }, [key])
}
