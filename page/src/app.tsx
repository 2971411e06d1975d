import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { explain, get, loginNeeded } from './api'
import { followKeys } from './keyboard'
import { ConfirmDialog } from './parts/confirm'
import { Help, helpOpen } from './parts/help'
import { Login } from './parts/login'
import { Notices } from './parts/notice'
import { Palette, paletteOpen } from './parts/palette'
import { place, route } from './router'
import { readSession, session } from './session'
import { Banners } from './shell/banners'
import { CurrentView } from './shell/current'
import { focusHeading, titleFor } from './shell/focus'
import { Header } from './shell/header'
import { followScroll } from './shell/scroll'
import { pause } from './sse'
import { startStream } from './stream'
import { serverTime } from './time'
import type { About } from './types'
import { viewOf } from './views'
import './shell/shell.css'

/** Why the page cannot start; null while it starts or when it has. */
const trouble = signal<string | null>(null)
/** Whether events are followed: what views read from now on misses nothing. */
const ready = signal(false)

export function App() {
  useEffect(() => {
    const stop = new AbortController()
    if (!loginNeeded.value && !ready.value) void begin(stop.signal)
    return () => stop.abort()
  }, [loginNeeded.value])
  useEffect(followKeys, [])
  return (
    <>
      <SkipLink />
      <Header />
      <Content />
      <div class="corner">
        <Notices />
        <Banners />
      </div>
      <ConfirmDialog />
      {paletteOpen.value ? <Palette /> : null}
      {helpOpen.value ? <Help /> : null}
    </>
  )
}

/** The view of the address, or why it cannot be shown yet. */
function Content() {
  const main = useRef<HTMLElement>(null)
  const first = useRef(true)
  const where = place.value
  const view = viewOf(route.peek().path)
  const full = ready.value && !loginNeeded.value && view?.full

  useEffect(() => {
    document.title = titleFor(route.peek().path)
    const opened = first.current
    first.current = false
    if (main.current === null) return
    const unscroll = followScroll(main.current)
    // The page that is opened first has the focus where the browser put it.
    const unfocus = opened ? () => undefined : focusHeading(main.current)
    return () => {
      unscroll()
      unfocus()
    }
  }, [where])
  return (
    <main id="content" ref={main} tabIndex={-1} class={full ? 'content content-full' : 'content'}>
      {loginNeeded.value ? <Login />
        : !ready.value ? <Starting />
        : <CurrentView key={where} view={view} />}
    </main>
  )
}

function Starting() {
  if (trouble.value === null) return <div class="starting" role="status"><span class="quiet">Connecting…</span></div>
  return (
    <div class="starting" role="alert">
      <h1>The server does not answer</h1>
      <p>{trouble.value}</p>
      <p class="quiet">The server is started with <code>freshline dev</code> or <code>freshline api</code>.</p>
    </div>
  )
}

function SkipLink() {
  return (
    <a
      class="skip" href="#content"
      onClick={(event) => {
        // The part of the address after # is the view, so the link cannot use it.
        event.preventDefault()
        document.getElementById('content')?.focus()
      }}
    >
      Skip to the content
    </a>
  )
}

/** Ask the server who we are and where its events are, until it answers. Without a token, the login comes first. */
async function begin(stop: AbortSignal): Promise<void> {
  for (let tries = 0; !stop.aborted; tries += 1) {
    try {
      const [, about] = await Promise.all([readSession(), get<About>('about', {}, stop)])
      if (stop.aborted || session.value === null) return
      trouble.value = null
      serverTime(about.at)
      startStream(about.position)
      ready.value = true
      return
    } catch (error) {
      if (stop.aborted || loginNeeded.value) return
      trouble.value = explain(error)
      await pause(Math.min(5000, 500 * 2 ** tries), stop)
    }
  }
}
