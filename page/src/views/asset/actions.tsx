import { get, post, segment } from '../../api'
import { quote, visible } from '../../format'
import { ask, type Field, type Values } from '../../parts/confirm'
import { onceKey } from '../../parts/requests'
import { may } from '../../session'
import { absolute, fromField, now, toField } from '../../time'
import type { Asset, RunDetail } from '../../types'
import { href } from '../../router'

/** What operators can do with an asset and its workflow. Each asks first, and shows the command that does the same. */
export type Done = () => void

const partition = (values: Values): string => (values.partition ? ` --partition ${quote(values.partition)}` : '')
const body = (values: Values): Record<string, string> => (values.partition ? { partitionKey: values.partition } : {})

function partitionField(asset: Asset, key: string): Field[] {
  if (asset.partitions === null) return []
  return [{ name: 'partition', label: 'Partition', type: 'text', value: key || asset.partitionKey, required: true }]
}

export function askReport(asset: Asset, key: string, done: Done): void {
  const once = onceKey()
  ask({
    title: `Report that ${visible(asset.assetId)} changed`,
    verb: 'Report',
    text: () => (
      <p>
        A new version of the source is recorded, and what reads it is evaluated at once. Without a data version every
        report counts as a change. With the one that is current (
        {asset.dataVersion === null ? 'none yet' : <code>{visible(asset.dataVersion)}</code>}) nothing changes.
      </p>
    ),
    fields: [
      ...partitionField(asset, key),
      { name: 'version', label: 'Data version', type: 'text', hint: 'Optional: what changes if and only if the data changes.' },
      { name: 'path', label: 'Path of the data', type: 'text', hint: 'Optional: where this version is, if the source allows it.' },
    ],
    command: (values) => {
      const version = values.version ? ` --data-version ${quote(values.version)}` : ''
      const payload = values.path ? ` --payload ${quote(JSON.stringify({ path: values.path }))}` : ''
      return `freshline report ${quote(asset.assetId)}${partition(values)}${version}${payload}`
    },
    act: async (values) => {
      const found = await post<{ version: number; changed: boolean; warnings: string[] }>(`assets/${segment(asset.assetId)}/produced`, {
        ...body(values), key: once,
        ...(values.version ? { dataVersion: values.version } : {}),
        ...(values.path ? { payload: { path: values.path } } : {}),
      })
      done()
      const warnings = found.warnings.map((one) => ` ${visible(one)}.`).join('')
      const said = found.changed ? 'was reported.' : 'was recorded: the data is the same as before.'
      return `Version ${found.version} ${said}${warnings}`
    },
  })
}

export function askRun(asset: Asset, slug: string, key: string, done: Done): void {
  const once = onceKey()
  ask({
    title: `Run ${visible(slug)}`,
    verb: 'Run',
    text: (values) => (
      <>
        <p>
          A run is queued on the current versions of the inputs. It ignores holds, pauses and cooldowns, and goes before
          automatic runs.
        </p>
        {values.full ? <p>A full refresh rewrites tables that are otherwise appended to or merged.</p> : null}
        {values.confirm ? <p class="bad">Rows that cannot be computed again are dropped.</p> : null}
      </>
    ),
    fields: [
      ...partitionField(asset, key),
      { name: 'full', label: 'Full refresh', type: 'checkbox' },
      { name: 'confirm', label: 'Drop rows that cannot be computed again', type: 'checkbox', hint: 'Only with a full refresh.' },
    ],
    command: (values) => `freshline run ${quote(slug)}${partition(values)}${values.full ? ' --full-refresh' : ''}${values.confirm ? ' --yes' : ''}`,
    act: async (values) => {
      const run = await post<RunDetail>(`workflows/${segment(slug)}/run`, {
        ...body(values), key: once, fullRefresh: values.full === 'yes', confirm: values.confirm === 'yes',
      })
      done()
      return <>A run was queued: <a href={href(['runs', run.id])}>run {run.id.slice(-8)}</a>.</>
    },
  })
}

export function askExpire(asset: Asset, key: string, done: Done): void {
  ask({
    title: `Expire ${visible(asset.assetId)}`,
    verb: 'Expire',
    text: () => (
      <p>
        Its current version counts as expired from now on.{' '}
        {asset.autoMaterialize === null
          ? 'It has no autoMaterialize block, so it becomes stale and nothing runs.'
          : 'With its enabled autoMaterialize block it is produced again, unless something holds it.'}
      </p>
    ),
    fields: partitionField(asset, key),
    command: (values) => `freshline expire ${quote(asset.assetId)}${partition(values)}`,
    act: async (values) => {
      await post(`assets/${segment(asset.assetId)}/expire`, body(values))
      done()
      return `${visible(asset.assetId)} has expired.`
    },
  })
}

export function askAccept(asset: Asset, done: Done): void {
  ask({
    title: `Accept rows of older code in ${visible(asset.assetId)}`,
    verb: 'Accept',
    text: () => <p>The rows stay as they are, in all partitions. The next change of the code asks again.</p>,
    fields: [],
    command: () => `freshline accept ${quote(asset.assetId)}`,
    act: async () => {
      await post(`assets/${segment(asset.assetId)}/accept`, {})
      done()
      return `The rows of older code in ${visible(asset.assetId)} are accepted.`
    },
  })
}

export function askPause(slug: string, done: Done): void {
  ask({
    title: `Pause ${visible(slug)}`,
    verb: 'Pause',
    text: (values) => {
      const until = fromField(values.until ?? '')
      return (
        <p>
          No automatic run of the workflow starts {until === null ? 'until somebody resumes it' : `until ${absolute(until)}`}.
          Queued ones are canceled, a running one finishes. Nothing is lost: after the pause one run catches up.
        </p>
      )
    },
    fields: [{
      name: 'until', label: 'Until', type: 'datetime-local', value: toField(now.peek() + 2 * 3_600_000),
      hint: 'In your time zone. Empty: without an end.',
    }],
    command: (values) => {
      const until = fromField(values.until ?? '')
      return `freshline pause ${quote(slug)}${until === null ? '' : ` --until ${until.slice(0, 19)}Z`}`
    },
    act: async (values) => {
      const until = fromField(values.until ?? '')
      await post(`workflows/${segment(slug)}/pause`, until === null ? {} : { until })
      done()
      return `${visible(slug)} is paused.`
    },
  })
}

export function askResume(slug: string, done: Done): void {
  ask({
    title: `Resume ${visible(slug)}`,
    verb: 'Resume',
    text: () => <p>The pause ends. If inputs changed in the meantime, one run catches up.</p>,
    command: () => `freshline resume ${quote(slug)}`,
    act: async () => {
      await post(`workflows/${segment(slug)}/resume`)
      done()
      return `${visible(slug)} runs automatically again.`
    },
  })
}

export function askReset(slug: string, done: Done): void {
  ask({
    title: `Reset ${visible(slug)}`,
    verb: 'Reset',
    text: () => <p>The cooldown ends, the breaker closes and a cancellation is forgotten. If there is a cause to run, it is tried again now.</p>,
    command: () => `freshline reset ${quote(slug)}`,
    act: async () => {
      await post(`workflows/${segment(slug)}/reset`)
      done()
      return `${visible(slug)} was reset.`
    },
  })
}

/** The button of a next step. An asset is read first, because its question needs its declaration. */
export function NextButton({ action, done }: { action: { type: string; target: string }; done: Done }) {
  if (!may('operate')) return null
  const { type, target } = action
  const start: Record<string, () => void> = {
    report: () => void get<Asset>(`assets/${segment(target)}`).then((asset) => askReport(asset, '', done)),
    resume: () => askResume(target, done),
    reset: () => askReset(target, done),
    run: () => void get<{ produces: string[] }>(`workflows/${segment(target)}`)
      .then((found) => get<Asset>(`assets/${segment(found.produces[0] ?? '')}`))
      .then((asset) => askRun(asset, target, '', done)),
  }
  if (!Object.hasOwn(start, type)) return null
  return <button type="button" class="small" onClick={start[type]}>{LABELS[type]} {visible(target)}…</button>
}

const LABELS: Readonly<Record<string, string>> = { report: 'Report', resume: 'Resume', reset: 'Reset', run: 'Run' }
