import { cut, few, named, short, version, visible, words } from '../../format'
import { href } from '../../router'
import { AssetLink, RunLink, Time } from '../../parts/basics'
import type { Run, Trigger } from '../../types'

/** Return why a run exists, in a few words for a list. */
export function causeText(trigger: Trigger): string {
  if (trigger.type === 'manual') return 'asked for by hand'
  if (trigger.type === 'backfill') return 'a backfill'
  const inputs = [...new Set((trigger.upstream ?? []).map((one) => one.assetId))]
  const reason = words(trigger.reason ?? 'automatic')
  return inputs.length === 0 ? reason : `${reason}: ${few(inputs)}`
}

/** How many changed inputs are named. */
const MOST = 10

/** Why a run exists: the inputs that changed, the expiry, the backfill, with links. */
export function Cause({ run }: { run: Run }) {
  const { trigger } = run
  const upstream = trigger.upstream ?? []
  return (
    <div class="stack">
      <span>{title(trigger)}</span>
      {trigger.backfillId ? (
        <span>for backfill <a class="id" href={href(['backfills', trigger.backfillId])}>{short(trigger.backfillId)}</a></span>
      ) : null}
      {trigger.expiry ? <span>expired <Time at={trigger.expiry.expiresAt} clock /> ({visible(words(trigger.expiry.reason))})</span> : null}
      {upstream.length === 0 ? null : (
        <ul class="plain stack run-causes">
          {upstream.slice(0, MOST).map((one) => (
            <li key={named(one.assetId, one.partitionKey)}>
              <AssetLink id={one.assetId} partition={one.partitionKey} /> changed from{' '}
              <Version text={one.from} /> to <Version text={one.to} />
              {one.runId ? <>, made by run <RunLink id={one.runId} /></> : ', reported from outside'}
            </li>
          ))}
          {upstream.length > MOST ? <li class="quiet">and {upstream.length - MOST} more</li> : null}
        </ul>
      )}
      {trigger.eventIds && trigger.eventIds.length > 0 ? (
        <span class="quiet">{trigger.eventIds.length === 1 ? 'event' : 'events'}{' '}
          {trigger.eventIds.slice(0, MOST).map((id) => (
            <a key={id} class="id run-event" href={href(['events', id])}>{short(id)}</a>
          ))}
        </span>
      ) : null}
    </div>
  )
}

function title(trigger: Trigger): string {
  if (trigger.type === 'manual') return trigger.fullRefresh ? 'asked for by hand, as a full refresh' : 'asked for by hand'
  if (trigger.type === 'backfill') return 'a backfill demands it'
  switch (trigger.reason) {
    case 'upstream-update':
      return 'an input changed'
    case 'expired':
      return 'an output expired'
    case 'missing':
      return 'an output was never produced'
    case 'retry':
      return 'tried again after a failure'
    case 'definition-changed':
      return 'its definition changed'
    default:
      return words(trigger.reason ?? 'automatic')
  }
}

export function Version({ text }: { text: string | null | undefined }) {
  return <span class="id run-version" title={text ? visible(cut(text, 300)) : 'nothing'}>{text ? visible(version(text)) : 'nothing'}</span>
}
