import type { ComponentChildren } from 'preact'
import { explain, Problem } from '../api'
import { named, visible } from '../format'
import { href } from '../router'
import { look } from '../states'
import { stream } from '../stream'
import { absolute, duration, local, now, relative } from '../time'

/** A state as a mark with its name. The mark has a colour and a shape; the name is text, so nothing needs colours. */
export function State({ of: state, label, bare = false }: { of: string; label?: string; bare?: boolean }) {
  const { colour, mark, meaning } = look(state)
  const text = label ?? state
  return (
    <span class={`state state-${colour}`} title={meaning === '' ? text : `${text}: ${meaning}`}>
      <svg class="mark" viewBox="0 0 16 16" aria-hidden={!bare} {...(bare ? { role: 'img', 'aria-label': text } : {})}>
        <rect x="0.5" y="0.5" width="15" height="15" rx="4" />
        <path d={mark} />
      </svg>
      {bare ? null : <span class="state-name">{text}</span>}
    </span>
  )
}

/** A time in the reader's zone, with its age; the exact time in UTC on hover. */
export function Time({ at, age = true, clock = false }: { at: string | null | undefined; age?: boolean; clock?: boolean }) {
  if (!at) return <span class="quiet">–</span>
  const text = clock ? local(at, now.value) : age ? relative(at, now.value) : local(at, now.value)
  return <time dateTime={at} title={`${absolute(at)} (here: ${new Date(at).toLocaleString()})`}>{text}</time>
}

/** How long something took, or takes since its start. */
export function Took({ from, to }: { from: string | null; to: string | null }) {
  if (from === null) return <span class="quiet">–</span>
  const end = to === null ? now.value : Date.parse(to)
  return <span class="number">{duration(end - Date.parse(from))}</span>
}

/** The class of a name: a short one stays on one line, a long one may break. */
export const nameClass = (name: string): string => (name.length <= 24 ? 'name nowrap' : 'name')

export function AssetLink({ id, partition, tab }: { id: string; partition?: string | null | undefined; tab?: string }) {
  const name = visible(named(id, partition))
  return <a class={nameClass(name)} href={href(['assets', id], { partition: partition ?? '', tab })}>{name}</a>
}

export function WorkflowLink({ slug, partition }: { slug: string; partition?: string | null | undefined }) {
  const name = visible(named(slug, partition))
  return <a class={nameClass(name)} href={href(['workflows', slug])}>{name}</a>
}

export function RunLink({ id }: { id: string | null | undefined }) {
  if (!id) return <span class="quiet">–</span>
  return <a class="id" href={href(['runs', id])} title={`run ${id}`}>{id.slice(-8)}</a>
}

/** A panel with a heading. `id` makes it a landmark that the keyboard help and tests can name. */
export function Panel(props: {
  title: ComponentChildren
  children: ComponentChildren
  actions?: ComponentChildren
  note?: ComponentChildren
  class?: string
}) {
  return (
    <section class={`panel ${props.class ?? ''}`}>
      <header class="panel-head">
        <h2>{props.title}</h2>
        {props.note === undefined ? null : <span class="quiet">{props.note}</span>}
        {props.actions === undefined ? null : <div class="panel-actions">{props.actions}</div>}
      </header>
      {props.children}
    </section>
  )
}

/** What a view shows instead of nothing: what would be here, and how to get it. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children === undefined ? null : <div class="empty-text">{children}</div>}
    </div>
  )
}

export function Failed({ error, retry }: { error: unknown; retry?: () => void }) {
  return (
    <div class="banner banner-bad" role="alert">
      <span><Ticks text={explain(error)} /></span>
      {retry === undefined ? null : <button type="button" onClick={retry}>Try again</button>}
    </div>
  )
}

/** The frame of loaded data: an error, a quiet placeholder at first, then the content. */
export function Body<T>(props: {
  from: { data: T | null; error: unknown; loading: boolean; reload: () => void }
  children: (data: T) => ComponentChildren
  lines?: number
}) {
  const { data, error, reload } = props.from
  // The shell says that the connection is lost. What is shown stays where it is.
  const known = data !== null && error instanceof Problem && error.status === 0 && stream().connection.value === 'lost'
  return (
    <>
      {error === null || known ? null : <Failed error={error} retry={reload} />}
      {data !== null ? props.children(data) : error === null ? <Skeleton lines={props.lines ?? 3} /> : null}
    </>
  )
}

export function Skeleton({ lines }: { lines: number }) {
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, index) => <div key={index} class="skeleton-line" />)}
    </div>
  )
}

/** Facts in two columns: a name and what is known. */
export function Facts({ items }: { items: readonly (readonly [string, ComponentChildren] | null)[] }) {
  return (
    <dl class="facts">
      {items.map((item) => item === null ? null : (
        <div key={item[0]}>
          <dt>{item[0]}</dt>
          <dd>{item[1]}</dd>
        </div>
      ))}
    </dl>
  )
}

export function Tabs({ tabs, current, at }: {
  tabs: readonly (readonly [string, string, number?])[]
  current: string
  at: (tab: string) => string
}) {
  return (
    <nav class="tabs" aria-label="Parts of this page">
      {tabs.map(([tab, label, number]) => (
        <a key={tab} href={at(tab)} aria-current={tab === current ? 'page' : undefined}>
          {label}{number === undefined ? null : <span class="count">{number}</span>}
        </a>
      ))}
    </nav>
  )
}

/** The heading of a page: its name, a state beside it, and its actions. */
export function Heading(props: {
  title: string
  kind?: string
  aside?: ComponentChildren
  actions?: ComponentChildren
}) {
  return (
    <header class="heading">
      <div class="heading-name">
        {props.kind === undefined ? null : <span class="kind">{props.kind}</span>}
        <h1>{visible(props.title)}</h1>
        {props.aside}
      </div>
      {props.actions === undefined ? null : <div class="heading-actions">{props.actions}</div>}
    </header>
  )
}

/** A text with ISO times in it, shown in the reader's zone. */
export function Sentence({ text }: { text: string }) {
  const parts = text.split(/(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/)
  return <>{parts.map((part, index) => (index % 2 === 1
    ? <Time key={index} at={part} clock />
    : <Ticks key={index} text={part} />))}</>
}

/** A text whose parts between backticks are code. */
export function Ticks({ text }: { text: string }) {
  const parts = text.split(/`([^`]+)`/)
  return <>{parts.map((part, index) => (index % 2 === 1
    ? <code key={index}>{visible(part)}</code>
    : visible(part)))}</>
}

export function Bar({ value, of, label }: { value: number; of: number; label: string }) {
  const share = of > 0 ? Math.min(1, value / of) : 0
  return <progress class="bar" max={1} value={share} aria-label={label} />
}

/** Shares of a whole as one bar, with the numbers as text below it. */
export function Shares({ counts, total, label }: {
  counts: readonly (readonly [string, number])[]
  total: number
  label: string
}) {
  const shown = counts.filter(([, n]) => n > 0)
  return (
    <div class="shares" role="img" aria-label={`${label}: ${shown.map(([state, n]) => `${n} ${state}`).join(', ')}`}>
      {shown.map(([state, n]) => (
        <span key={state} class={`share state-${look(state).colour}`} style={{ flexGrow: n / Math.max(1, total) }} />
      ))}
    </div>
  )
}
