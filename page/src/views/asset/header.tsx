import { AssetLink, Heading, Sentence, State, Ticks, Time, WorkflowLink } from '../../parts/basics'
import { conclusionText } from '../../parts/conclusion'
import { NoMaterializer, RootCauses } from '../../parts/evidence'
import { causesOf } from '../../parts/evidence-text'
import { countsText } from '../../parts/partition-cells'
import { visible } from '../../format'
import { href } from '../../router'
import { may } from '../../session'
import { askAccept, askExpire, askPause, askReport, askReset, askResume, askRun, NextButton } from './actions'
import type { Asset } from '../../types'
import type { AssetData } from './data'
import { promiseText } from './promise'
import { questionText } from './question'

/** The name with its state, the promise and the age, why it is in this state, and what to do. */
export function AssetHeader({ data, partition, reload }: { data: AssetData; partition: string; reload: () => void }) {
  const { asset } = data
  const overdue = lagOf(data)?.overdue === true
  return (
    <>
      <Heading
        title={asset.assetId} kind={asset.workflowSlug === null ? 'source' : 'asset'}
        aside={(
          <>
            {asset.partitions === null ? <State of={asset.state} /> : null}
            {overdue ? <State of="overdue" /> : null}
            {asset.needsDecision === null ? null : <State of="waiting" label="needs decision" />}
            {asset.upstreamFailing ? <State of="failing" label="upstream failing" /> : null}
            {asset.mixed ? <span class="badge" title="It was computed from inputs that do not belong together">mixed</span> : null}
          </>
        )}
        actions={<Actions data={data} partition={partition} reload={reload} />}
      />
      <p class="asset-produced">
        <Age asset={asset} /> <Promised data={data} />
      </p>
      <Reason data={data} reload={reload} />
    </>
  )
}

export const lagOf = (data: AssetData) => data.policy?.assets.find((one) => one.assetId === data.asset.assetId)?.lag

function Age({ asset }: { asset: Asset }) {
  const newest = asset.partitions === null ? '' : 'The newest partition was '
  const what = asset.workflowSlug === null ? 'reported' : 'produced'
  const verb = newest === '' ? `${what.charAt(0).toUpperCase()}${what.slice(1)}` : `${newest}${what}`
  if (asset.producedAt === null) return <>{newest === '' ? 'Never' : `${newest}never`} {what}.</>
  return <>{verb} <Time at={asset.producedAt} />.</>
}

function Promised({ data }: { data: AssetData }) {
  const { asset } = data
  const promise = promiseText(asset.freshness)
  return (
    <>
      {promise === null ? (asset.workflowSlug === null ? null : <>It promises no age.</>) : <Sentence text={promise} />}
      {asset.nextRefreshAt === null || asset.workflowSlug === null ? null : <> Next evaluation <Time at={asset.nextRefreshAt} />.</>}
    </>
  )
}

/** Why it is in this state: the last decision as a sentence, and where the trouble begins. */
function Reason({ data, reload }: { data: AssetData; reload: () => void }) {
  const { asset, status, decision, partition } = data
  return (
    <section class="asset-reason" aria-label="Why it is in this state">
      {asset.needsDecision === null ? null : <p class="banner banner-warn"><Ticks text={questionText(asset, asset.needsDecision)} /></p>}
      {asset.partitions === null ? null : (
        <p><strong>{countsText(asset.partitions.counts, asset.partitions.total)}</strong>; the newest is{' '}
          <AssetLink id={asset.assetId} partition={asset.partitionKey} />.</p>
      )}
      {partition === null ? null : (
        <p class="row">
          Partition <code>{visible(partition.key)}</code>
          {partition.state === null ? <span class="quiet">does not exist</span> : <State of={partition.state} />}
          <a href={href(['assets', asset.assetId], { tab: 'partitions' })}>all partitions</a>
        </p>
      )}
      {decision === null ? (
        <p class="quiet">
          {asset.workflowSlug === null
            ? 'A source: it is made outside, and its changes are reported. Nothing is decided about it.'
            : 'Nothing was decided about it yet.'}
        </p>
      ) : (
        <p>
          {asset.partitions === null ? null : <><code>{visible(decision.partitionKey)}</code>{' '}</>}
          <Sentence text={conclusionText(decision)} />{' '}
          <a href={href(['why', asset.assetId], { partition: partition?.key ?? '' })}>Why?</a>
        </p>
      )}
      <RootCauses causes={causesOf(status.rootCauses, asset.workflowSlug, partition?.key ?? '')} act={(action) => <NextButton action={action} done={reload} />} />
      {status.warnings.map((one) => <p key={one} class="banner banner-warn">{visible(one)}</p>)}
      {status.materializers === 0 && asset.workflowSlug !== null
        ? <NoMaterializer /> : null}
      {asset.workflowSlug === null ? null : <p class="quiet">Made by workflow <WorkflowLink slug={asset.workflowSlug} />.</p>}
    </section>
  )
}

function Actions({ data, partition, reload }: { data: AssetData; partition: string; reload: () => void }) {
  if (!may('operate')) return null
  const { asset, flow } = data
  const slug = asset.workflowSlug
  if (slug === null) {
    return asset.state === 'retired' ? null : <button type="button" class="primary" onClick={() => askReport(asset, partition, reload)}>Report…</button>
  }
  const troubled = flow !== null && (flow.cooldown.failures > 0 || flow.breaker.state === 'open' || flow.hold?.reason === 'canceled')
  return (
    <>
      <button type="button" class="primary" onClick={() => askRun(asset, slug, partition, reload)}>Run…</button>
      {asset.needsDecision === null ? null : <button type="button" onClick={() => askAccept(asset, reload)}>Accept…</button>}
      <button type="button" disabled={asset.version === null && asset.partitions === null} onClick={() => askExpire(asset, partition, reload)}>Expire…</button>
      {flow !== null && flow.paused !== false
        ? <button type="button" onClick={() => askResume(slug, reload)}>Resume…</button>
        : <button type="button" onClick={() => askPause(slug, reload)}>Pause…</button>}
      <button type="button" disabled={!troubled} title={troubled ? undefined : 'There is no cooldown, no open breaker and no cancellation'}
        onClick={() => askReset(slug, reload)}>Reset…</button>
      {asset.partitions === null ? null : <a class="button" href={href(['backfills'], { new: 1, asset: asset.assetId })}>Backfill…</a>}
    </>
  )
}
