import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'

interface Notice {
  readonly number: number
  readonly text: ComponentChildren
}

const notices = signal<readonly Notice[]>([])
let numbers = 0
const SHOWN_MS = 8000

/** Say what an action did. Screen readers read it out; it goes away by itself. */
export function notify(text: ComponentChildren): void {
  const number = ++numbers
  notices.value = [...notices.value.slice(-2), { number, text }]
  setTimeout(() => drop(number), SHOWN_MS)
}

function drop(number: number): void {
  notices.value = notices.value.filter((one) => one.number !== number)
}

export function Notices() {
  return (
    <div class="notices" role="status" aria-live="polite">
      {notices.value.map((one) => (
        <div key={one.number} class="notice">
          <span>{one.text}</span>
          <button type="button" class="small" aria-label="Close" onClick={() => drop(one.number)}>✕</button>
        </div>
      ))}
    </div>
  )
}
