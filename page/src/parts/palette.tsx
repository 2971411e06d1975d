import { signal, useSignal } from '@preact/signals'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import { get } from '../api'
import { visible } from '../format'
import { go } from '../router'
import { dark, nextTheme } from '../theme'
import type { Page } from '../types'
import { MAIN, MORE, titleOf } from '../views'
import { commands } from './commands'
import { helpOpen } from './help'
import { Overlay } from './overlay'
import { best, type Entry } from './search'
import './overlay.css'

export const paletteOpen = signal(false)

interface Named {
  readonly kind: 'asset' | 'workflow'
  readonly name: string
}

/** The most names of one answer: with more, the server searches by their beginning. */
const MOST_NAMES = 1000
/** Names of a moment ago are shown at once, while new ones are read. */
const remembered = signal<readonly Named[]>([])

/** Search: assets and workflows, pages, what the view offers. */
export function Palette() {
  const typed = useSignal('')
  const selected = useSignal(0)
  const field = useRef<HTMLInputElement>(null)
  const begun = useNames(typed.value)
  const entries = useMemo(() => everything(begun), [begun, commands.value])
  const found = [...best(entries, typed.value), ...byId(typed.value.trim())]
  const current = Math.min(selected.value, Math.max(0, found.length - 1))
  const close = (): void => {
    paletteOpen.value = false
  }
  const choose = (entry: Entry | undefined): void => {
    if (entry === undefined) return
    close()
    // After the dialog is gone, so that the focus of what opens next is not taken back.
    setTimeout(entry.go)
  }
  const keys = (event: KeyboardEvent): void => {
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }
    const step = steps[event.key]
    if (event.key === 'Enter') choose(found[current])
    else if (step !== undefined) selected.value = Math.max(0, Math.min(found.length - 1, current + step))
    else return
    event.preventDefault()
  }
  useEffect(() => {
    field.current?.focus()
  }, [])
  useEffect(() => {
    document.getElementById(`found-${current}`)?.scrollIntoView({ block: 'nearest' })
  }, [current])
  return (
    <Overlay label="Search" class="palette" close={close}>
      <div class="palette-entry">
        <input
          ref={field} type="text" role="combobox" aria-label="Search assets, workflows, pages and commands" aria-expanded="true"
          aria-controls="found" aria-activedescendant={found.length === 0 ? undefined : `found-${current}`}
          aria-autocomplete="list" placeholder="Search assets, workflows and pages" autocomplete="off" spellcheck={false}
          value={typed.value} onKeyDown={keys}
          onInput={(event) => {
            typed.value = event.currentTarget.value
            selected.value = 0
          }}
        />
      </div>
      <ul id="found" class="palette-list" role="listbox" aria-label="Found">
        {found.map((entry, index) => (
          <li
            key={`${entry.kind} ${entry.label}`} id={`found-${index}`} role="option" aria-selected={index === current}
            onClick={() => choose(entry)}
            onMouseMove={() => {
              selected.value = index
            }}
          >
            <span class="palette-label">{visible(entry.label)}</span>
            <span class="palette-kind">{entry.kind}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 ? <p class="empty quiet">Nothing has this name.</p> : null}
      <div class="palette-foot"><span><kbd>↑</kbd> <kbd>↓</kbd> move</span><span><kbd>Enter</kbd> opens</span><span><kbd>Esc</kbd> closes</span></div>
    </Overlay>
  )
}

/** An id that somebody pasted, whole or its last eight characters. */
function byId(typed: string): readonly Entry[] {
  if (!/^[0-9a-f-]{8,36}$/i.test(typed)) return []
  const run: Entry = { label: `Run ${typed}`, kind: 'run', go: () => go(['runs', typed]) }
  // Events are found by the whole id only.
  return typed.length < 36 ? [run] : [run, { label: `Event ${typed}`, kind: 'event', go: () => go(['events', typed]) }]
}

function everything(names: readonly Named[]): readonly Entry[] {
  const offered = commands.value.map((one): Entry => ({ label: one.label, kind: one.hint ?? 'command', go: one.run }))
  const pages = [...MAIN, ...MORE].map((section): Entry => ({
    label: titleOf(section), kind: 'page', go: () => go(section === '' ? [] : [section]),
  }))
  const other = dark.value ? 'light' : 'dark'
  const always: Entry[] = [
    { label: 'Keyboard help', kind: 'command', go: () => { helpOpen.value = true } },
    { label: `Use the ${other} theme`, kind: 'command', go: nextTheme },
  ]
  const things = names.map((one): Entry => ({
    label: one.name, kind: one.kind, go: () => go([one.kind === 'asset' ? 'assets' : 'workflows', one.name]),
  }))
  return [...offered, ...pages, ...things, ...always]
}

/** Return the names of assets and workflows; where there are many, also those that begin with what was typed. */
function useNames(typed: string): readonly Named[] {
  const begun = useSignal<readonly Named[]>([])
  const prefix = typed.trim()
  useEffect(() => {
    const stop = new AbortController()
    void read('', stop.signal).then((names) => {
      if (names !== null) remembered.value = names
    })
    return () => stop.abort()
  }, [])
  const many = remembered.value.length >= MOST_NAMES
  useEffect(() => {
    begun.value = []
    if (!many || prefix === '') return
    const stop = new AbortController()
    const timer = setTimeout(() => {
      void read(prefix, stop.signal).then((names) => {
        if (names !== null) begun.value = names
      })
    }, 120)
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [prefix, many])
  return useMemo(() => {
    const known = new Set(remembered.value.map((one) => `${one.kind} ${one.name}`))
    return [...remembered.value, ...begun.value.filter((one) => !known.has(`${one.kind} ${one.name}`))]
  }, [remembered.value, begun.value])
}

/** The names, or null if they cannot be read: pages can still be found then. */
async function read(prefix: string, stop: AbortSignal): Promise<readonly Named[] | null> {
  try {
    const found = await get<Page<Named>>('names', { prefix, limit: MOST_NAMES }, stop)
    return stop.aborted ? null : found.items
  } catch {
    return null
  }
}
