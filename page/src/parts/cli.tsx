import { useSignal } from '@preact/signals'

/** The command line that says the same as the view, ready to copy. */
export function Cli({ command }: { command: string }) {
  return (
    <p class="cli">
      <span class="cli-label">In a terminal</span>
      <Command text={command} />
      <Copy text={command} label="Copy the command" />
    </p>
  )
}

/** A command as text. A line breaks between its words, and not after the hyphens of an option. */
export function Command({ text }: { text: string }) {
  return <code>{text.split(' ').map((word, index) => <>{index > 0 ? ' ' : ''}<span class="word">{word}</span></>)}</code>
}

export function Copy({ text, label, caption = 'Copy' }: { text: string; label: string; caption?: string }) {
  const done = useSignal(false)
  const copy = async (): Promise<void> => {
    await write(text)
    done.value = true
    setTimeout(() => {
      done.value = false
    }, 1500)
  }
  return (
    <button type="button" class="small" aria-label={label} onClick={() => void copy()}>
      {done.value ? 'Copied' : caption}
    </button>
  )
}

async function write(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
  } catch {
    // Without https a browser has no clipboard for scripts; the old way selects a field and copies it.
    const field = document.createElement('textarea')
    field.value = text
    document.body.append(field)
    field.select()
    document.execCommand('copy')
    field.remove()
  }
}
