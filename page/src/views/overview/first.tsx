import type { ComponentChildren } from 'preact'
import { Panel } from '../../parts/basics'
import { Command, Copy } from '../../parts/cli'
import { visible } from '../../format'
import { href } from '../../router'
import type { Overview } from '../../types'

/** What to do in the beginning: nothing is applied yet, or nothing was ever reported. */
export function FirstUse({ overview }: { overview: Overview }) {
  if (Object.keys(overview.counts).length === 0) return <NothingApplied />
  const produced = overview.total > 0 && (overview.counts.missing ?? 0) === overview.total
  const source = overview.causes.find((one) => one.kind === 'never-reported')
  return produced && source !== undefined ? <NothingReported asset={source.assetId} command={source.next.command} /> : null
}

function NothingApplied() {
  return (
    <Panel title="Begin" note="three commands">
      <ol class="steps">
        <Step command="freshline init shop" title="Create a project">
          It has a source, two assets and a job each. In a project that exists already, leave this out.
        </Step>
        <Step command="freshline apply" title="Store its definitions">
          It shows what will change, and asks. The assets appear on this page at once; in the <a href={href(['graph'])}>graph</a> too.
        </Step>
        <Step command="freshline report shop.orders" title="Report that a source changed">
          Freshline decides what has to run, runs it, and can say why.
        </Step>
      </ol>
    </Panel>
  )
}

function NothingReported({ asset, command }: { asset: string | null; command: string | null }) {
  return (
    <Panel title="Begin" note="nothing was produced yet">
      <ol class="steps">
        <Step command={command ?? 'freshline report ASSET'} title={`Report ${asset === null ? 'a source' : visible(asset)}`}>
          A source is made outside. A report says that it has new data; everything that reads it follows by itself. A program
          can send the report, or a <a href={href(['sources'])}>watch</a> can look for new data.
        </Step>
        <Step command="freshline status --watch" title="See it happen">
          This page and the <a href={href(['graph'])}>graph</a> show the runs while they run.
        </Step>
      </ol>
    </Panel>
  )
}

function Step({ title, command, children }: { title: string; command: string; children: ComponentChildren }) {
  return (
    <li>
      <h3>{title}</h3>
      <p class="quiet">{children}</p>
      <p class="cli"><Command text={visible(command)} /><Copy text={visible(command)} label={`Copy: ${command}`} /></p>
    </li>
  )
}
