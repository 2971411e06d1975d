import type { Signal } from '@preact/signals'
import { post, remove, segment } from '../../api'
import { counted, quote, visible } from '../../format'
import { ask, type Values } from '../../parts/confirm'
import { names, options } from '../../parts/requests'
import type { Secret } from '../../parts/secret'
import { go } from '../../router'
import type { Webhook } from '../../types'

type Done = () => void

export function askAdd(secret: Signal<Secret | null>, done: Done): void {
  ask({
    title: 'Add a webhook',
    text: () => (
      <p>From now on a materializer sends every event that matches to this address, signed, at least once. It goes only to public
        addresses by https, unless <code>FRESHLINE_WEBHOOK_ALLOW_PRIVATE</code> names the network. The secret for the signature is shown once.</p>
    ),
    verb: 'Add it',
    fields: [
      { name: 'url', label: 'Address', type: 'text', required: true, hint: 'https://hooks.example/freshline' },
      { name: 'name', label: 'Name', type: 'text', hint: 'Default: the host of the address.' },
      { name: 'types', label: 'Types of events', type: 'text', hint: 'Patterns such as asset.* or workflow.run.failed, separated by spaces. Default: all.' },
      { name: 'assets', label: 'Assets', type: 'text', hint: 'Patterns such as sales.*, separated by spaces. Default: all.' },
      { name: 'kind', label: 'Format', type: 'select', value: 'cloudevents', options: [['cloudevents', 'CloudEvents'], ['openlineage', 'OpenLineage']] },
    ],
    command: addCommand,
    act: async (values) => {
      const types = names(values.types ?? '')
      const assets = names(values.assets ?? '')
      const made = await post<Webhook & { secret: string | null }>('webhooks', {
        url: values.url, kind: values.kind,
        ...(values.name ? { name: values.name } : {}),
        ...(types.length > 0 ? { types } : {}),
        ...(assets.length > 0 ? { assets } : {}),
      })
      if (made.secret !== null) secret.value = { what: `The secret of webhook ${made.name}`, text: made.secret }
      done()
      return `Webhook ${visible(made.name)} sends events from now on.`
    },
  })
}

export const addCommand = (values: Values): string =>
  `freshline webhook add ${quote(values.url || 'URL')}${values.name ? ` --name ${quote(values.name)}` : ''}` +
  `${options('--type', names(values.types ?? ''), quote)}${options('--asset', names(values.assets ?? ''), quote)}` +
  `${values.kind === 'openlineage' ? ' --kind openlineage' : ''}`

export function askPause(one: Webhook, done: Done): void {
  ask({
    title: `Pause webhook ${visible(one.name)}?`,
    text: () => <p>Nothing is sent until it is resumed. Events wait, and are removed after <code>FRESHLINE_KEEP_DAYS</code> as all others.</p>,
    verb: 'Pause it',
    command: () => `freshline webhook pause ${quote(one.name)}`,
    act: async () => {
      await post(`webhooks/${segment(one.name)}/pause`)
      done()
      return `Webhook ${visible(one.name)} is paused.`
    },
  })
}

export function askResume(one: Webhook, done: Done): void {
  ask({
    title: one.paused ? `Resume webhook ${visible(one.name)}?` : `Try webhook ${visible(one.name)} at once?`,
    text: () => <p>{one.paused ? 'The events that waited are sent, in the order of their positions.' : 'The pause after the failures ends, and the next event is sent now.'}</p>,
    verb: one.paused ? 'Resume it' : 'Try at once',
    command: () => `freshline webhook resume ${quote(one.name)}`,
    act: async () => {
      await post(`webhooks/${segment(one.name)}/resume`)
      done()
      return `Webhook ${visible(one.name)} sends again.`
    },
  })
}

/** Send dead letters again: all of them, or the one of an event. */
export function askReplay(one: Webhook, eventId: string | null, done: Done): void {
  ask({
    title: eventId === null ? `Send ${counted(one.dead, 'dead letter')} of ${visible(one.name)} again?` : 'Send this dead letter again?',
    text: () => <p>{eventId === null ? 'Each' : 'It'} gets a new budget of attempts, with the same event id, so that the receiver can recognize what it has.</p>,
    verb: 'Send again',
    command: () => `freshline webhook redeliver ${quote(one.name)}${eventId === null ? '' : ` --event ${quote(eventId)}`}`,
    act: async () => {
      const said = await post<{ redelivered: number }>(`webhooks/${segment(one.name)}/redeliver`, eventId === null ? {} : { eventId })
      done()
      return `${counted(said.redelivered, 'event')} will be sent again.`
    },
  })
}

export function askRemove(one: Webhook): void {
  ask({
    title: `Remove webhook ${visible(one.name)}?`,
    text: () => <p>Nothing is sent to it any more. What waits and its dead letters are removed with it: {counted(one.waiting + one.dead, 'event')}.</p>,
    verb: 'Remove it',
    dangerous: true,
    command: () => `freshline webhook remove ${quote(one.name)}`,
    act: async () => {
      await remove(`webhooks/${segment(one.name)}`)
      go(['webhooks'])
      return `Webhook ${visible(one.name)} was removed.`
    },
  })
}
