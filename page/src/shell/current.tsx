import { useSignal } from '@preact/signals'
import { Component, type ComponentChildren, type ComponentType } from 'preact'
import { useEffect } from 'preact/hooks'
import { explain } from '../api'
import { Empty, Heading, Skeleton } from '../parts/basics'
import type { View } from '../views'

/** Views that were loaded: they are shown at once the next time. */
const known = new Map<View['load'], ComponentType>()

/** The view, loaded when it is first wanted; an error in it does not take the shell away. */
export function CurrentView({ view }: { view: View | null }) {
  if (view === null) return <NotFound />
  return (
    <Boundary>
      <Loaded view={view} />
    </Boundary>
  )
}

function Loaded({ view }: { view: View }) {
  const found = useSignal<{ view: ComponentType } | null>(ready(view))
  const trouble = useSignal<unknown>(null)
  useEffect(() => {
    if (found.peek() !== null) return
    let wanted = true
    view.load().then(
      (module) => {
        known.set(view.load, module.default)
        if (wanted) found.value = { view: module.default }
      },
      (error: unknown) => {
        if (wanted) trouble.value = error
      },
    )
    return () => {
      wanted = false
    }
  }, [view])
  if (trouble.value !== null) return <NotLoaded />
  if (found.value === null) return <Skeleton lines={6} />
  const Shown = found.value.view
  return <div class={view.full ? 'view view-full' : 'view'}><Shown /></div>
}

function ready(view: View): { view: ComponentType } | null {
  const found = known.get(view.load)
  return found === undefined ? null : { view: found }
}

function NotLoaded() {
  return (
    <div class="starting" role="alert">
      <h1>This part of the page could not be loaded</h1>
      <p>The server cannot be reached, or it was updated since this page was opened.</p>
      <button type="button" class="primary" onClick={() => location.reload()}>Load the page again</button>
    </div>
  )
}

function NotFound() {
  return (
    <div class="view">
      <Heading title="Not found" />
      <Empty title="There is no such page.">
        <p>The address may have been cut. <a href="#/">Go to the overview</a>, or press <kbd>/</kbd> to search.</p>
      </Empty>
    </div>
  )
}

/** Catches what a view throws while it is drawn. */
class Boundary extends Component<{ children: ComponentChildren }, { error: unknown }> {
  override state: { error: unknown } = { error: null }

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error: error ?? new Error('unknown') }
  }

  override componentDidCatch(error: unknown): void {
    console.error(error)
  }

  override render() {
    if (this.state.error === null) return this.props.children
    return (
      <div class="starting" role="alert">
        <h1>This view failed</h1>
        <p class="mono">{explain(this.state.error)}</p>
        <p class="quiet">This is an error in the page. The data is not affected; the commands say the same.</p>
        <button type="button" class="primary" onClick={() => this.setState({ error: null })}>Try again</button>
      </div>
    )
  }
}
