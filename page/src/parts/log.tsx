import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { count } from '../format'
import { route, setQuery } from '../router'
import type { LogLine } from '../types'
import { Empty, Failed, Skeleton } from './basics'
import { Copy } from './cli'
import { plain, Rows } from './log-rows'
import { useLog, type LogSource } from './log-source'
import { blocks, chosen, matching, step, type Block, type LogFilter } from './log-window'
import './log.css'

/** How near the end counts as the end, in pixels. */
const NEAR = 24

/** The log of a run: live, with search and filters that are in the address. */
export function Log({ runId, active }: { runId: string; active: boolean }) {
  const { query } = route.value
  const wanted = Number(query.line)
  const line = query.line !== undefined && Number.isSafeInteger(wanted) && wanted > 0 ? wanted : null
  const source = useLog(runId, active, line)
  const [follow, setFollow] = useState(line === null)
  const [wrap, setWrap] = useState(true)
  const [match, setMatch] = useState<number | null>(null)
  source.following = follow
  useEffect(() => {
    // A link to a line of the log that is shown already.
    if (line === null) return
    setFollow(false)
    setMatch(null)
  }, [line])

  const window = source.window.value
  const filter: LogFilter = { step: query.step ?? '', stream: query.stream ?? '' }
  const find = query.find ?? ''
  const shown = useMemo(() => chosen(window.lines, filter), [window.lines, filter.step, filter.stream])
  const matches = useMemo(() => matching(shown, find), [shown, find])
  const known = useRef<readonly Block[]>([])
  known.current = useMemo(() => blocks(shown, known.current), [shown])
  const go = (way: 1 | -1): void => {
    const next = step(matches, match, way)
    setMatch(next)
    if (next !== null) setFollow(false)
  }
  const target = match ?? (follow ? null : line)
  return (
    <div class="log">
      <Bar {...{ source, window: window.lines, filter, find, matches, match, go, follow, wrap, active }}
        shown={shown} setFollow={setFollow} setWrap={setWrap} />
      {source.error.value === null ? null : <Failed error={source.error.value} retry={() => source.more()} />}
      {source.loading.value ? <Skeleton lines={6} /> : shown.length === 0 ? <None active={active} lines={window.lines} /> : (
        <Box source={source} follow={follow} setFollow={setFollow} target={target} wrap={wrap}>
          {window.start ? null : (
            <button type="button" class="log-more" disabled={source.busy.value} onClick={() => {
              setFollow(false)
              source.earlier()
            }}>Load earlier lines</button>
          )}
          <Rows blocks={known.current} find={find} match={target} />
          {window.end ? null : (
            <button type="button" class="log-more" disabled={source.busy.value} onClick={() => source.later()}>
              Load later lines
            </button>
          )}
        </Box>
      )}
    </div>
  )
}

function None({ active, lines }: { active: boolean; lines: readonly LogLine[] }) {
  if (lines.length > 0) return <Empty title="No line that is loaded matches the filters." />
  return (
    <Empty title={active ? 'Nothing was printed yet.' : 'This run printed nothing, or its log was removed.'}>
      <p>What the steps print, log, or write to their error output appears here while they run.</p>
    </Empty>
  )
}

/** What scrolls. It stays at the end while it follows, and where it was when earlier lines are put above. */
function Box(props: {
  source: LogSource
  follow: boolean
  setFollow: (on: boolean) => void
  target: number | null
  wrap: boolean
  children: ComponentChildren
}) {
  const box = useRef<HTMLDivElement>(null)
  const content = useRef<HTMLDivElement>(null)
  const lines = props.source.window.value.lines
  const first = lines[0]?.line
  /** What is below the view before a change is drawn, and where the view was at the last movement. */
  const before = useRef({ first, below: 0, top: 0, height: 0, room: 0 })
  if (box.current !== null) before.current.below = box.current.scrollHeight - box.current.scrollTop
  useEffect(() => {
    const at = box.current
    if (at === null) return
    if (!props.follow && first !== undefined && before.current.first !== undefined && first < before.current.first) {
      at.scrollTop = at.scrollHeight - before.current.below
    }
    before.current.first = first
  }, [first, props.follow])
  useEffect(() => {
    const at = box.current
    const inside = content.current
    if (!props.follow || at === null || inside === null) return
    // The height changes when lines come, when a block is drawn whose height was estimated, and with the window.
    const observer = new ResizeObserver(() => {
      at.scrollTop = at.scrollHeight
    })
    observer.observe(inside)
    observer.observe(at)
    return () => observer.disconnect()
  }, [props.follow])
  useEffect(() => {
    const at = box.current
    const row = props.target === null ? null : at?.querySelector<HTMLElement>(`[data-line="${props.target}"]`)
    if (at === null || row === null || row === undefined) return
    const place = row.getBoundingClientRect().top - at.getBoundingClientRect().top
    if (place < 0 || place > at.clientHeight - 40) at.scrollTop += place - at.clientHeight / 2
  }, [props.target, lines.length > 0])
  const scrolled = (): void => {
    const at = box.current
    if (at === null) return
    const { top, height, room } = before.current
    before.current.top = at.scrollTop
    before.current.height = at.scrollHeight
    before.current.room = at.clientHeight
    // Only a reader moves the view up while the lines and the window keep their size.
    if (props.follow) {
      if (at.scrollTop < top - 1 && at.scrollHeight >= height && at.clientHeight === room) props.setFollow(false)
    } else if (at.scrollTop > top && at.scrollHeight - at.scrollTop - at.clientHeight < NEAR && props.source.window.peek().end) {
      props.setFollow(true)
    }
  }
  return (
    <div ref={box} class={`log-box${props.wrap ? ' log-wrap' : ''}`} tabIndex={0} role="log" aria-live="off"
      aria-label="Lines of the log" onScroll={scrolled}>
      <div ref={content}>{props.children}</div>
    </div>
  )
}

function Bar(props: {
  source: LogSource
  window: readonly LogLine[]
  shown: readonly LogLine[]
  filter: LogFilter
  find: string
  matches: readonly number[]
  match: number | null
  go: (way: 1 | -1) => void
  follow: boolean
  setFollow: (on: boolean) => void
  wrap: boolean
  setWrap: (on: boolean) => void
  active: boolean
}) {
  const { window, matches, match, follow } = props
  const text = useMemo(() => props.shown.map(plain).join('\n'), [props.shown])
  const position = match === null ? -1 : matches.indexOf(match)
  const toggleFollow = (): void => {
    if (!follow) props.source.newest()
    props.setFollow(!props.active || !follow)
  }
  return (
    <form class="log-bar" role="search" aria-label="Log" onSubmit={(event) => event.preventDefault()}>
      <label class="log-find">
        <span class="log-label">Search</span>
        <input
          type="search" value={props.find} spellcheck={false} placeholder="Search the log"
          onInput={(event) => setQuery({ find: event.currentTarget.value })}
          onKeyDown={(event) => {
            if (event.key === 'Enter') props.go(event.shiftKey ? -1 : 1)
          }}
        />
      </label>
      {props.find === '' ? null : (
        <span class="log-matches">
          <span role="status">{found(matches.length, position, props.source.window.value.start && props.source.window.value.end)}</span>
          <button type="button" class="small" aria-label="Previous match" disabled={matches.length === 0} onClick={() => props.go(-1)}>↑</button>
          <button type="button" class="small" aria-label="Next match" disabled={matches.length === 0} onClick={() => props.go(1)}>↓</button>
          {props.source.window.value.start ? null : (
            <button type="button" class="small" disabled={props.source.busy.value} onClick={() => {
              props.setFollow(false)
              props.source.earlier()
            }}>Search earlier lines</button>
          )}
        </span>
      )}
      <Choice label="Step" name="step" value={props.filter.step} of={window.map((one) => one.stepId)} />
      <Choice label="Stream" name="stream" value={props.filter.stream} of={window.map((one) => one.stream)} />
      <label class="log-check">
        <input type="checkbox" checked={props.wrap} onChange={(event) => props.setWrap(event.currentTarget.checked)} />
        <span>Wrap</span>
      </label>
      <button type="button" class="small" aria-pressed={props.active ? follow : undefined} onClick={toggleFollow}>
        {props.active ? 'Follow' : 'To the end'}
      </button>
      <Copy text={text} label="Copy the lines that are shown" />
      <span class="quiet log-size">{size(window)}</span>
    </form>
  )
}

/** Return how many lines match. `whole`: all lines of the log are loaded, otherwise only those count. */
function found(matches: number, position: number, whole: boolean): string {
  const where = whole ? '' : ' in the loaded lines'
  if (matches === 0) return `no match${where}`
  return `${position < 0 ? '' : `${count(position + 1)} of `}${count(matches)}${position < 0 ? where : ''}`
}

function size(lines: readonly LogLine[]): string {
  const first = lines[0]
  const last = lines.at(-1)
  return first === undefined || last === undefined ? '' : `lines ${count(first.line)}–${count(last.line)}`
}

/** A choice of the values that are there. Without a second one there is nothing to choose. */
function Choice({ label, name, value, of }: { label: string; name: string; value: string; of: readonly string[] }) {
  const values = [...new Set(of)].sort()
  if (value !== '' && !values.includes(value)) values.push(value)
  if (values.length < 2 && value === '') return null
  return (
    <label>
      <span class="log-label">{label}</span>
      <select value={value} onChange={(event) => setQuery({ [name]: event.currentTarget.value })}>
        <option value="">all</option>
        {values.map((one) => <option key={one} value={one}>{one}</option>)}
      </select>
    </label>
  )
}
