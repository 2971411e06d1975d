import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { loginNeeded, serverVersion } from '../api'
import { visible } from '../format'
import { helpOpen } from '../parts/help'
import { paletteOpen } from '../parts/palette'
import { href, place, route } from '../router'
import { logout, session } from '../session'
import { stream } from '../stream'
import { dark, nextTheme } from '../theme'
import { MAIN, MORE, titleOf, viewOf } from '../views'
import { Menu } from './menu'

export function Header() {
  const open = useSignal(false)
  const where = place.value
  useEffect(() => {
    open.value = false
  }, [where])
  useEffect(() => {
    if (!open.value) return
    const escape = (event: KeyboardEvent): void => {
      if (event.key === 'Escape') open.value = false
    }
    addEventListener('keydown', escape)
    return () => removeEventListener('keydown', escape)
  }, [open.value])
  const known = session.value !== null && !loginNeeded.value
  return (
    <header class="shell">
      <div class="shell-row">
        <a class="brand" href="#/"><Mark /><span>Freshline</span></a>
        {known ? (
          <>
            <button
              type="button" class="nav-button bare" aria-expanded={open.value} aria-controls="navigation"
              onClick={() => {
                open.value = !open.value
              }}
            >
              {viewOf(route.peek().path)?.title ?? 'Pages'} <Chevron />
            </button>
            <Navigation open={open.value} />
          </>
        ) : null}
        <div class="shell-end">
          {known ? <Search /> : null}
          {known ? <Connected /> : null}
          <ThemeSwitch />
          {known ? <Account /> : null}
        </div>
      </div>
    </header>
  )
}

function Navigation({ open }: { open: boolean }) {
  const current = viewOf(route.peek().path)?.section ?? null
  const link = (section: string) => (
    <a key={section} href={href(section === '' ? [] : [section])} aria-current={section === current ? 'page' : undefined}>
      {titleOf(section)}
    </a>
  )
  return (
    <nav id="navigation" class={open ? 'nav nav-open' : 'nav'} aria-label="Pages">
      {MAIN.map(link)}
      <div class="nav-more">{MORE.map(link)}</div>
      <Menu class="nav-menu" name="More pages" label={<>More <Chevron /></>} current={current !== null && MORE.includes(current)}>
        {MORE.map(link)}
      </Menu>
    </nav>
  )
}

function Search() {
  return (
    <button
      type="button" class="search-button" aria-label="Search assets, workflows and pages" title="Search (press /)"
      onClick={() => {
        paletteOpen.value = true
      }}
    >
      <Glass /><span class="search-text">Search</span><kbd>/</kbd>
    </button>
  )
}

const CONNECTIONS = {
  live: { text: 'Live', title: 'What happens is shown at once.' },
  connecting: { text: 'Connecting', title: 'The page asks for the stream of events.' },
  lost: { text: 'Lost', title: 'The server does not answer; the page tries again by itself.' },
} as const

function Connected() {
  const state = stream().connection.value
  const { text, title } = CONNECTIONS[state]
  return (
    <span class={`connection connection-${state}`} role="status" title={title}>
      <svg viewBox="0 0 10 10" aria-hidden="true"><circle cx="5" cy="5" r="3.5" /></svg>
      <span class="connection-text"><span class="hidden-text">Connection: </span>{text}</span>
    </span>
  )
}

function ThemeSwitch() {
  const other = dark.value ? 'light' : 'dark'
  return (
    <button type="button" class="bare icon" aria-label={`Use the ${other} theme`} title={`Use the ${other} theme`} onClick={nextTheme}>
      <svg viewBox="0 0 16 16" aria-hidden="true">
        {dark.value
          ? <><circle cx="8" cy="8" r="3" /><path d="M8 1.5v1.6M8 12.9v1.6M1.5 8h1.6M12.9 8h1.6M3.4 3.4l1.1 1.1M11.5 11.5l1.1 1.1M12.6 3.4l-1.1 1.1M4.5 11.5l-1.1 1.1" /></>
          : <path d="M13.5 9.6A6 6 0 0 1 6.4 2.5a6 6 0 1 0 7.1 7.1z" />}
      </svg>
    </button>
  )
}

function Account() {
  const who = session.value
  if (who === null) return null
  const name = visible(who.name ?? who.actor)
  return (
    <Menu
      class="account" name={`You: ${name}`}
      label={<svg viewBox="0 0 16 16" aria-hidden="true" class="icon-svg"><circle cx="8" cy="5.4" r="2.8" /><path d="M2.6 14c.5-3 2.7-4.6 5.4-4.6s4.9 1.6 5.4 4.6" /></svg>}
    >
      <div class="menu-text">
        <strong>{name}</strong>
        <span class="quiet">{who.anonymous ? 'No token is needed here.' : 'Logged in with a token.'} May: {who.scopes.join(', ')}</span>
      </div>
      <button type="button" class="bare" onClick={() => { helpOpen.value = true }}>Keyboard <kbd>?</kbd></button>
      <a href="./docs">The API</a>
      {who.anonymous
        ? <button type="button" class="bare" onClick={() => { loginNeeded.value = true }}>Log in with a token</button>
        : <button type="button" class="bare" onClick={() => void logout()}>Log out</button>}
      <div class="menu-text quiet">Freshline {serverVersion.value ?? ''}</div>
    </Menu>
  )
}

const Mark = () => (
  <svg viewBox="0 0 32 32" aria-hidden="true">
    <rect width="32" height="32" rx="7" />
    <path d="M8 22V10h10M8 16h8" />
    <circle cx="23" cy="21" r="3" />
  </svg>
)
const Chevron = () => <svg class="chevron" viewBox="0 0 10 10" aria-hidden="true"><path d="M2 3.5l3 3 3-3" /></svg>
const Glass = () => <svg viewBox="0 0 16 16" aria-hidden="true" class="icon-svg"><circle cx="7" cy="7" r="4.2" /><path d="M10.2 10.2L14 14" /></svg>
