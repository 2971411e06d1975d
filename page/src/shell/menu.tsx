import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { place } from '../router'

/** A button that opens a small panel. Escape, a click outside and going elsewhere close it. */
export function Menu(props: {
  label: ComponentChildren
  name: string
  class?: string
  current?: boolean
  children: ComponentChildren
}) {
  const open = useSignal(false)
  const box = useRef<HTMLDivElement>(null)
  const button = useRef<HTMLButtonElement>(null)
  const where = place.value
  useEffect(() => {
    open.value = false
  }, [where])
  useEffect(() => {
    if (!open.value) return
    const outside = (event: Event): void => {
      if (event.target instanceof Node && !box.current?.contains(event.target)) open.value = false
    }
    const escape = (event: KeyboardEvent): void => {
      if (event.key !== 'Escape') return
      open.value = false
      button.current?.focus()
    }
    addEventListener('pointerdown', outside)
    addEventListener('focusin', outside)
    addEventListener('keydown', escape)
    return () => {
      removeEventListener('pointerdown', outside)
      removeEventListener('focusin', outside)
      removeEventListener('keydown', escape)
    }
  }, [open.value])
  return (
    <div class={`menu ${props.class ?? ''}`} ref={box}>
      <button
        type="button" ref={button} class={props.current ? 'menu-button bare menu-current' : 'menu-button bare'}
        aria-expanded={open.value} aria-label={props.name}
        onClick={() => {
          open.value = !open.value
        }}
      >
        {props.label}
      </button>
      {open.value ? <div class="menu-panel">{props.children}</div> : null}
    </div>
  )
}
