import { post, remove, segment } from '../../api'
import { quote, visible } from '../../format'
import { ask, type Field, type Values } from '../../parts/confirm'
import { names, options } from '../../parts/requests'
import { go } from '../../router'
import type { Alert } from '../../types'

type Done = () => void

const KINDS: readonly (readonly [string, string])[] = [
  ['failing', 'failing: the last automatic run of a workflow failed'],
  ['breaker', 'breaker: a workflow failed so often that its breaker opened'],
  ['check-failed', 'check-failed: a check failed, and the data was not published'],
  ['overdue', 'overdue: an asset is older than its maxAge'],
  ['watch-failed', 'watch-failed: looks at a source fail'],
  ['backfill-proposed', 'backfill-proposed: a proposal waits for an approval'],
]
const CHOSEN = new Set(['failing', 'overdue', 'breaker', 'check-failed'])

const FIELDS: readonly Field[] = [
  { name: 'name', label: 'Name', type: 'text', required: true },
  ...KINDS.map(([kind, label]): Field => ({ name: `on ${kind}`, label, type: 'checkbox', value: CHOSEN.has(kind) ? 'yes' : '' })),
  { name: 'assets', label: 'Assets', type: 'text', hint: 'Patterns such as sales.*, separated by spaces. Default: all, of every project.' },
  { name: 'env', label: 'Variable that holds the address', type: 'text', required: true,
    hint: 'A variable of the materializer, such as ONCALL_URL, with an address of Apprise. The address itself would be stored in plain text.' },
  { name: 'after', label: 'Report what is wrong for', type: 'text', hint: 'A duration such as 5m. Default: at once.' },
  { name: 'quiet', label: 'Quiet', type: 'text', hint: 'Messages wait in this time: 22:00-07:00.' },
  { name: 'digest', label: 'Summary instead of single messages', type: 'text', hint: "'daily 08:00', 4h or a cron expression." },
  { name: 'timezone', label: 'Time zone of both', type: 'text', hint: 'Default: UTC.' },
]

const kinds = (values: Values): string[] => KINDS.map(([kind]) => kind).filter((kind) => values[`on ${kind}`] === 'yes')

export function askAdd(done: Done): void {
  ask({
    title: 'Add a rule',
    text: () => <p>It covers the assets of all projects. What is wrong already is reported too. A materializer sends the messages; it needs the extra <code>freshline[alerts]</code>.</p>,
    verb: 'Add it',
    fields: FIELDS,
    command: addCommand,
    act: async (values) => {
      const assets = names(values.assets ?? '')
      const quiet = names(values.quiet ?? '')
      await post('alerts', {
        name: values.name, on: kinds(values), to: [{ env: values.env }],
        ...(assets.length > 0 ? { assets } : {}),
        ...(quiet.length > 0 ? { quiet } : {}),
        ...Object.fromEntries(['after', 'digest', 'timezone'].flatMap((name) => (values[name] ? [[name, values[name]]] : []))),
      })
      done()
      return `Rule ${visible(values.name ?? '')} was added.`
    },
  })
}

export const addCommand = (values: Values): string =>
  `freshline alert add ${quote(values.name || 'NAME')}${options('--on', kinds(values), quote)}` +
  `${options('--asset', names(values.assets ?? ''), quote)} --to-env ${quote(values.env || 'VARIABLE')}` +
  ['after', 'quiet', 'digest', 'timezone'].map((name) => (values[name] ? ` --${name} ${quote(values[name])}` : '')).join('')

export function askPause(one: Alert, done: Done): void {
  ask({
    title: `Pause rule ${visible(one.name)}?`,
    text: () => <p>Nothing is sent until it is resumed. Messages wait.</p>,
    verb: 'Pause it',
    command: () => `freshline alert pause ${quote(one.name)}`,
    act: async () => {
      await post(`alerts/${segment(one.name)}/pause`)
      done()
      return `Rule ${visible(one.name)} is paused.`
    },
  })
}

export function askResume(one: Alert, done: Done): void {
  ask({
    title: one.paused ? `Resume rule ${visible(one.name)}?` : `Send the waiting messages of ${visible(one.name)} at once?`,
    text: () => <p>{one.paused ? 'The pause ends, and the messages that waited are sent.' : 'The wait after failures ends, and the messages are sent now.'}</p>,
    verb: one.paused ? 'Resume it' : 'Send now',
    command: () => `freshline alert resume ${quote(one.name)}`,
    act: async () => {
      await post(`alerts/${segment(one.name)}/resume`)
      done()
      return `Rule ${visible(one.name)} sends again.`
    },
  })
}

export function askRemove(one: Alert): void {
  ask({
    title: `Remove rule ${visible(one.name)}?`,
    text: () => <p>Its incidents and its waiting messages are removed with it. Nobody is told that an incident ended.</p>,
    verb: 'Remove it',
    dangerous: true,
    command: () => `freshline alert remove ${quote(one.name)}`,
    act: async () => {
      await remove(`alerts/${segment(one.name)}`)
      go(['alerts'])
      return `Rule ${visible(one.name)} was removed.`
    },
  })
}
