import { useSignal } from '@preact/signals'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import { count, visible } from '../../format'
import { href, route, setQuery } from '../../router'
import { AssetLink, RunLink, Shares, State, Time } from '../../parts/basics'
import { duration, now } from '../../time'
import type { PartitionSummary } from '../../types'
import { holdText } from './hold'
import { lateness, visibleRange, type Detail, type Entry, type Row } from './rows'

const ROW = 37
const NARROW_ROW = 68
const GROUP = 41
const AROUND = 12
const NARROW = '(max-width: 640px)'

export type Active = ReadonlyMap<string, { readonly id: string; readonly status: string }>

/**
 * A list of any length: only the rows on the screen and a few around them are in the document. Its height is that of
 * all rows, so the page scrolls as if they were there.
 */
export function AssetList({ entries, active, complete }: { entries: readonly Entry[]; active: Active; complete: boolean }) {
  const box = useRef<HTMLDivElement>(null)
  const view = useSignal({ from: 0, to: 1200 })
  const narrow = useNarrow()
  const tops = useMemo(() => positions(entries, narrow ? NARROW_ROW : ROW), [entries, narrow])

  useEffect(() => {
    let asked = 0
    const measure = (): void => {
      asked = 0
      const top = box.current?.getBoundingClientRect().top ?? 0
      const next = { from: Math.max(0, -top), to: Math.max(0, innerHeight - top) }
      if (next.from !== view.peek().from || next.to !== view.peek().to) view.value = next
    }
    const soon = (): void => {
      if (asked === 0) asked = requestAnimationFrame(measure)
    }
    measure()
    // Any ancestor may be what scrolls, and what is above the list may grow.
    addEventListener('scroll', soon, { capture: true, passive: true })
    addEventListener('resize', soon)
    const grown = new ResizeObserver(soon)
    grown.observe(document.body)
    return () => {
      cancelAnimationFrame(asked)
      removeEventListener('scroll', soon, { capture: true })
      removeEventListener('resize', soon)
      grown.disconnect()
    }
  }, [])

  const [first, last] = visibleRange(tops, view.value.from, view.value.to, AROUND)
  const shown = entries.slice(first, last)
  return (
    <div class="asset-list" role="table" aria-label="Assets" aria-rowcount={entries.length + 1} onKeyDown={(event) => move(event, box.current)}>
      <div class="asset-head" role="row" aria-rowindex={1}>
        {['State', 'Asset', 'Age', 'Promise', 'Now', 'Why'].map((title) => <span key={title} role="columnheader">{title}</span>)}
      </div>
      <div ref={box} class="asset-rows" role="rowgroup" style={{ height: `${tops.at(-1) ?? 0}px` }}>
        <div class="asset-window" role="presentation" style={{ transform: `translateY(${tops[first] ?? 0}px)` }}>
          {shown.map((entry, index) => entry.kind === 'group'
            ? <Group key={`group ${entry.name}`} entry={entry} index={first + index} />
            : <AssetRow key={entry.row.id} row={entry.row} index={first + index} active={active} complete={complete} />)}
        </div>
      </div>
    </div>
  )
}

function positions(entries: readonly Entry[], row: number): number[] {
  const tops = [0]
  for (const entry of entries) tops.push(tops.at(-1)! + (entry.kind === 'group' ? GROUP : row))
  return tops
}

function useNarrow(): boolean {
  const narrow = useSignal(matchMedia(NARROW).matches)
  useEffect(() => {
    const media = matchMedia(NARROW)
    const follow = (): void => {
      narrow.value = media.matches
    }
    media.addEventListener('change', follow)
    return () => media.removeEventListener('change', follow)
  }, [])
  return narrow.value
}

/** Arrow keys go from name to name. Rows beyond the screen exist, so the next one can always be focused. */
function move(event: KeyboardEvent, box: HTMLElement | null): void {
  const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
  const row = event.target instanceof Element ? event.target.closest('[data-index]') : null
  if (step === 0 || row === null || event.altKey || event.ctrlKey || event.metaKey) return
  const next = Number(row.getAttribute('data-index')) + step
  const target = box?.querySelector<HTMLElement>(`[data-index="${next}"] .name, [data-index="${next}"] button`)
  if (!target) return
  event.preventDefault()
  target.focus()
}

function Group({ entry, index }: { entry: Extract<Entry, { kind: 'group' }>; index: number }) {
  const { name, open, counts, total } = entry
  const toggle = (): void => {
    const closed = new Set((route.value.query.closed ?? '').split(',').filter(Boolean))
    if (open) closed.add(name === '' ? '-' : name)
    else closed.delete(name === '' ? '-' : name)
    setQuery({ closed: [...closed].join(',') })
  }
  return (
    <div class="asset-group" role="row" aria-rowindex={index + 2} data-index={index}>
      <span role="cell" aria-colspan={6}>
        <button type="button" class="bare small" aria-expanded={open} onClick={toggle}>
          <svg class="asset-chevron" viewBox="0 0 16 16" aria-hidden><path d={open ? 'M4 6l4 4 4-4' : 'M6 4l4 4-4 4'} /></svg>
          {name === '' ? 'without a prefix' : `${visible(name)}.`}
        </button>
        <span class="quiet">{count(total)}: {counts.map(([state, n]) => `${count(n)} ${state}`).join(', ')}</span>
        <span class="asset-shares"><Shares counts={counts} total={total} label={`States of ${name}`} /></span>
      </span>
    </div>
  )
}

function AssetRow({ row, index, active, complete }: { row: Row; index: number; active: Active; complete: boolean }) {
  const late = lateness(row.detail, now.value)
  return (
    <div class="asset-row" role="row" aria-rowindex={index + 2} data-index={index}>
      <span role="cell" class="asset-state"><State of={row.state} /></span>
      <span role="cell" class="asset-name">
        <AssetLink id={row.id} />
        {row.detail?.partitions ? <span class="quiet"> {freshText(row.detail.partitions)}</span> : null}
      </span>
      <span role="cell" class="asset-age">{row.detail === null ? <Waiting complete={complete} /> : <Time at={row.detail.producedAt} />}</span>
      <span role="cell" class={late === null ? 'asset-promise' : 'asset-promise bad'}>
        {row.detail === null || row.detail.maxAgeMs === null ? <span class="quiet">–</span>
          : late === null ? `within ${duration(row.detail.maxAgeMs)}`
          : <><State of="overdue" bare label="overdue" /> {duration(late)} over {duration(row.detail.maxAgeMs)}</>}
      </span>
      <span role="cell" class="asset-now"><Now row={row} active={active} /></span>
      <span role="cell" class="asset-why"><a href={href(['why', row.id])} aria-label={`Why ${row.id} is ${row.state}`}>Why?</a></span>
    </div>
  )
}

/** Of an asset with partitions; a partition of a source that was reported is fresh. */
const freshText = ({ counts, total }: PartitionSummary): string => `${count(counts.fresh ?? 0)} of ${count(total)} fresh`

const Waiting = ({ complete }: { complete: boolean }) => <span class="quiet" title={complete ? '' : 'It is being read.'}>{complete ? '–' : '…'}</span>

/** What happens with an asset now, or next: a run, a hold, or a time. */
function Now({ row, active }: { row: Row; active: Active }) {
  const one: Detail | null = row.detail
  const run = one?.workflowSlug ? active.get(one.workflowSlug) : undefined
  if (one === null) return null
  if (row.state === 'running' && run !== undefined) return <>run <RunLink id={run.id} /></>
  if (one.hold !== null && one.hold.reason !== 'in-flight') {
    return (
      <span title={holdText(one.hold)}>
        {holdText({ ...one.hold, until: null })}
        {one.hold.until === null ? null : <> until <Time at={one.hold.until} clock /></>}
      </span>
    )
  }
  if (one.lastRun?.status === 'queued') return <>queued, run <RunLink id={one.lastRun.runId} /></>
  if (one.needsDecision !== null) return <span class="warn">needs decision</span>
  if (one.upstreamFailing && row.state !== 'failing') return <span class="bad">upstream failing</span>
  if (row.state === 'failing' && one.lastRun !== null) return <>failed run <RunLink id={one.lastRun.runId} /></>
  if (one.nextRefreshAt !== null) return <span class="quiet">next <Time at={one.nextRefreshAt} /></span>
  if (one.workflowSlug !== null && !one.automatic) return <span class="quiet">runs on request</span>
  return null
}
