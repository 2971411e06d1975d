import { useSignal } from '@preact/signals'
import { useEffect, useId } from 'preact/hooks'
import { get } from '../../api'
import type { Page } from '../../types'

/** A field for the name of an asset or a workflow, completed by the server. It takes effect on Enter or on a choice. */
export function NameField({ label, kind, value, placeholder, take }: {
  label: string
  kind: 'asset' | 'workflow'
  value: string
  placeholder?: string
  take: (name: string) => void
}) {
  const id = useId()
  const typed = useSignal(value)
  const names = useSignal<readonly string[]>([])
  useEffect(() => {
    typed.value = value
  }, [value])
  useEffect(() => {
    const stop = new AbortController()
    const timer = setTimeout(() => {
      get<Page<{ name: string; kind: string }>>('names', { prefix: typed.value, limit: 200 }, stop.signal).then(
        (found) => {
          names.value = found.items.filter((one) => one.kind === kind).map((one) => one.name)
        },
        // Completion is a help only: without it names can be typed.
        () => undefined,
      )
    }, 150)
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [typed.value, kind])
  const submit = (text: string): void => {
    if (text.trim() !== value) take(text.trim())
  }
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id} type="search" list={`${id}-names`} value={typed.value} placeholder={placeholder ?? ''} spellcheck={false} autocomplete="off"
        onInput={(event) => {
          typed.value = event.currentTarget.value
          // A choice from the list is a whole name; typing one takes Enter or leaving the field.
          if (event instanceof InputEvent && event.inputType === 'insertReplacementText') submit(typed.value)
        }}
        onChange={(event) => submit(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter') return
          // A name is no answer to the form around it.
          event.preventDefault()
          submit(event.currentTarget.value)
        }}
      />
      <datalist id={`${id}-names`}>{names.value.map((name) => <option key={name} value={name} />)}</datalist>
    </div>
  )
}
