import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'

/** A dialog over the page. Escape and a click beside it close it; the focus goes back to where it was. */
export function Overlay(props: { label: string; class: string; close: () => void; children: ComponentChildren }) {
  const box = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const before = document.activeElement
    box.current?.showModal()
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus()
    }
  }, [])
  return (
    <dialog
      ref={box} class={props.class} aria-label={props.label}
      onCancel={(event) => {
        event.preventDefault()
        props.close()
      }}
      onClick={(event) => {
        // The dialog itself is hit only beside its content: the content fills it.
        if (event.target === event.currentTarget) props.close()
      }}
    >
      <div class="overlay">{props.children}</div>
    </dialog>
  )
}
