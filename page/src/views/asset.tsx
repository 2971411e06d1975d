import { Problem } from '../api'
import { quote, visible } from '../format'
import { Body, Empty, Heading, Tabs } from '../parts/basics'
import { Cli } from '../parts/cli'
import { href, route } from '../router'
import { Checks } from './asset/checks'
import { useAsset, type AssetData } from './asset/data'
import { Decisions } from './asset/decisions'
import { AssetHeader } from './asset/header'
import { Overview } from './asset/overview'
import { Partitions } from './asset/partitions'
import { Rows } from './asset/rows'
import { Versions } from './asset/versions'
import './asset.css'

const TABS = ['overview', 'versions', 'decisions', 'checks', 'rows', 'partitions'] as const
type Tab = (typeof TABS)[number]

/** One asset: `#/assets/ID?tab=…&partition=…`. */
export default function AssetView() {
  const id = route.value.path[1] ?? ''
  const { tab = '', partition = '' } = route.value.query
  const loaded = useAsset(id, partition)
  if (loaded.error instanceof Problem && loaded.error.status === 404) return <Missing id={id} />
  const current = TABS.find((one) => one === tab) ?? 'overview'
  return (
    <Body from={loaded} lines={8}>
      {(data) => (
        <>
          <AssetHeader data={data} partition={partition} reload={loaded.reload} />
          <Tabs tabs={tabsOf(data)} current={current} at={(one) => href(['assets', id], { tab: one === 'overview' ? '' : one, partition })} />
          <Part tab={current} data={data} partition={partition} />
        </>
      )}
    </Body>
  )
}

function tabsOf({ asset }: AssetData): (readonly [string, string, number?])[] {
  const source = asset.workflowSlug === null
  return [
    ['overview', 'Overview'],
    ['versions', 'Versions'],
    ...(source ? [] : [['decisions', 'Decisions'] as const, ['checks', 'Checks'] as const]),
    ['rows', 'Rows'],
    ...(asset.partitions === null ? [] : [['partitions', 'Partitions', asset.partitions.total] as const]),
  ]
}

function Part({ tab, data, partition }: { tab: Tab; data: AssetData; partition: string }) {
  const command = `freshline ${COMMANDS[tab]} ${quote(data.asset.assetId)}${optionsOf(tab, partition)}`
  return (
    <>
      {tab === 'versions' ? <Versions data={data} partition={partition} />
        : tab === 'decisions' ? <Decisions data={data} partition={partition} />
        : tab === 'checks' ? <Checks data={data} partition={partition} />
        : tab === 'rows' ? <Rows data={data} partition={partition} />
        : tab === 'partitions' ? <Partitions data={data} />
        : <Overview data={data} />}
      <Cli command={command} />
    </>
  )
}

function optionsOf(tab: Tab, partition: string): string {
  const { from = '', to = '', version = '' } = route.value.query
  // Ends without a known key are places in the picture, which the command does not know.
  if (tab === 'partitions') return from === '' || to === '' || from.startsWith('#') || to.startsWith('#') ? '' : ` --from ${quote(from)} --to ${quote(to)}`
  if (tab === 'overview') return ''
  return `${partition === '' ? '' : ` --partition ${quote(partition)}`}${tab === 'rows' && version !== '' ? ` --version ${quote(version)}` : ''}`
}

const COMMANDS: Readonly<Record<Tab, string>> = {
  overview: 'status', versions: 'table versions', decisions: 'why', checks: 'why', rows: 'show', partitions: 'partitions',
}

function Missing({ id }: { id: string }) {
  return (
    <>
      <Heading title={id} kind="asset" />
      <Empty title={`There is no asset ${visible(id)}.`}>
        <p>
          It may have been renamed, or its definition was removed and <code>freshline forget</code> deleted it.{' '}
          <a href={href(['assets'], { q: id })}>Search all assets</a>.
        </p>
        <Cli command="freshline status --all" />
      </Empty>
    </>
  )
}
