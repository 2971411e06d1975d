import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { explain } from '../api'
import { Ticks } from './basics'
import { Cli } from './cli'
import { notify } from './notice'

export interface Field {
  readonly name: string
  readonly label: string
  readonly type: 'text' | 'number' | 'datetime-local' | 'checkbox' | 'select' | 'textarea' | 'password'
  readonly value?: string
  readonly options?: readonly (readonly [string, string])[]
  readonly hint?: string
  readonly required?: boolean
  readonly min?: number
}

export type Values = Readonly<Record<string, string>>

/** A question before an action: it says what will happen, and which command does the same. */
export interface Question {
  readonly title: string
  /** What will happen, as sentences. */
  readonly text: (values: Values) => ComponentChildren
  /** What the button says: a verb. */
  readonly verb: string
  readonly fields?: readonly Field[]
  readonly command?: (values: Values) => string
  readonly dangerous?: boolean
  /** Do it. The answer is what is said afterwards; null: nothing. */
  readonly act: (values: Values) => Promise<ComponentChildren>
}

const question = signal<Question | null>(null)
const values = signal<Values>({})
const trouble = signal<string | null>(null)
const busy = signal(false)

/** Ask before an action. Nothing happens unless the reader says yes. */
export function ask(wanted: Question): void {
  values.value = Object.fromEntries((wanted.fields ?? []).map((field) => [field.name, field.value ?? '']))
  trouble.value = null
  busy.value = false
  question.value = wanted
}

export function ConfirmDialog() {
  const box = useRef<HTMLDialogElement>(null)
  const asked = question.value
  useEffect(() => {
    const element = box.current
    if (asked === null || element === null || element.open) return
    const before = document.activeElement
    element.showModal()
    // The first thing to fill in; else the answer, and never the dangerous one.
    const first = element.querySelector<HTMLElement>('.field :is(input, select, textarea)') ??
      element.querySelector<HTMLElement>(`.confirm-buttons [type="${asked.dangerous ? 'button' : 'submit'}"]`)
    first?.focus()
    // What was focused gets the focus back, so that the keyboard goes on where it was.
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus()
    }
  }, [asked])
  if (asked === null) return null

  const close = (): void => {
    if (!busy.value) question.value = null
  }
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault()
    if (busy.value) return
    busy.value = true
    trouble.value = null
    try {
      const said = await asked.act(values.value)
      question.value = null
      if (said !== null && said !== undefined) notify(said)
    } catch (error) {
      trouble.value = explain(error)
    } finally {
      busy.value = false
    }
  }
  return (
    <dialog
      ref={box} class="confirm" aria-labelledby="confirm-title" aria-describedby="confirm-text"
      onCancel={(event) => {
        event.preventDefault()
        close()
      }}
    >
      <form onSubmit={(event) => void submit(event)}>
        <h2 id="confirm-title">{asked.title}</h2>
        <div id="confirm-text" class="confirm-text">{asked.text(values.value)}</div>
        {asked.fields?.map((field) => <Entry key={field.name} field={field} />)}
        {asked.command === undefined ? null : <Cli command={asked.command(values.value)} />}
        {trouble.value === null ? null : <p class="banner banner-bad" role="alert"><span><Ticks text={trouble.value} /></span></p>}
        <div class="confirm-buttons">
          <button type="button" onClick={close} disabled={busy.value}>Do nothing</button>
          <button type="submit" class={asked.dangerous ? 'danger' : 'primary'} disabled={busy.value}>
            {busy.value ? 'Working…' : asked.verb}
          </button>
        </div>
      </form>
    </dialog>
  )
}

function Entry({ field }: { field: Field }) {
  const id = `confirm-${field.name}`
  const value = values.value[field.name] ?? ''
  const take = (text: string): void => {
    values.value = { ...values.value, [field.name]: text }
  }
  const shared = { id, required: field.required ?? false }
  return (
    <div class={field.type === 'checkbox' ? 'field field-check' : 'field'}>
      <label for={id}>{field.label}</label>
      {field.type === 'select' ? (
        <select {...shared} value={value} onChange={(event) => take(event.currentTarget.value)}>
          {field.options?.map(([option, label]) => <option key={option} value={option}>{label}</option>)}
        </select>
      ) : field.type === 'textarea' ? (
        <textarea {...shared} rows={4} value={value} onInput={(event) => take(event.currentTarget.value)} />
      ) : field.type === 'checkbox' ? (
        <input {...shared} type="checkbox" checked={value === 'yes'}
          onChange={(event) => take(event.currentTarget.checked ? 'yes' : '')} />
      ) : (
        <input {...shared} type={field.type as 'text'} value={value} min={field.min} autocomplete="off"
          onInput={(event) => take(event.currentTarget.value)} />
      )}
      {field.hint === undefined ? null : <span class="hint">{field.hint}</span>}
    </div>
  )
}
