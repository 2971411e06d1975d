import type { ComponentChildren } from 'preact'
import type { Listing } from '../listing'
import { counted } from '../format'
import { Empty, Failed, Skeleton } from './basics'

export interface Column<T> {
  readonly title: string
  readonly cell: (item: T) => ComponentChildren
  /** Numbers are aligned to the right. */
  readonly number?: boolean
  /** A cell that takes the width which is left. */
  readonly wide?: boolean
  /** Left out on narrow screens: what another column says too. */
  readonly extra?: boolean
}

/**
 * A table. On a phone each row becomes a block with the names of its columns. The order of the rows is that of
 * `items`: the table never sorts, so that nothing moves while somebody reads.
 */
export function Table<T>(props: {
  items: readonly T[]
  columns: readonly Column<T>[]
  id: (item: T) => string
  label: string
  current?: ((item: T) => boolean) | undefined
}) {
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label={props.label}>
      <table>
        <thead>
          <tr>{props.columns.map((one) => (
            <th key={one.title} scope="col" class={classes(one)}>{one.title}</th>
          ))}</tr>
        </thead>
        <tbody>
          {props.items.map((item) => (
            <tr key={props.id(item)} class={props.current?.(item) ? 'current' : undefined}>
              {props.columns.map((one) => (
                <td key={one.title} data-label={one.title} class={classes(one)}>{one.cell(item)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function classes<T>(one: Column<T>): string {
  return [one.number ? 'number' : '', one.wide ? 'wide' : '', one.extra ? 'extra' : ''].filter(Boolean).join(' ')
}

/** A listing as a table, with what is new behind a button and older items behind another. */
export function ListingTable<T>(props: {
  listing: Listing<T>
  columns: readonly Column<T>[]
  id: (item: T) => string
  label: string
  empty: ComponentChildren
  noun?: string
}) {
  const { listing } = props
  return (
    <>
      {listing.error === null ? null : <Failed error={listing.error} retry={listing.reload} />}
      {listing.fresh > 0 ? (
        <button type="button" class="new-items" onClick={listing.showNew}>
          {listing.fresh > 99 ? '99+' : listing.fresh} new {props.noun ?? ''} — show
        </button>
      ) : null}
      {listing.items === null ? (listing.error === null ? <Skeleton lines={6} /> : null)
        : listing.items.length === 0 ? props.empty
        : <Table items={listing.items} columns={props.columns} id={props.id} label={props.label} />}
      {listing.items !== null && listing.items.length > 0 ? (
        <p class="list-end">
          {listing.more
            ? <button type="button" onClick={listing.loadMore} disabled={listing.busy}>Older</button>
            : <span class="quiet">{counted(listing.items.length, 'entry', 'entries')}, all that match</span>}
        </p>
      ) : null}
    </>
  )
}

export const nothing = (title: string, text: ComponentChildren): ComponentChildren => (
  <Empty title={title}>{text}</Empty>
)
