import { counted, quote, visible } from '../../format'
import { duration } from '../../time'
import type { AssetState, OlderCode } from '../../types'

/** How many rows older code made, what computing them again costs, and the commands that answer. */
export function questionText(asset: Pick<AssetState, 'assetId' | 'workflowSlug'>, found: OlderCode): string {
  const rows = found.rows === null ? 'Rows are' : `${found.exact ? '' : 'Up to '}${counted(found.rows, 'row')} ${found.rows === 1 ? 'is' : 'are'}`
  const where = found.partitionsTotal === 0 ? '' : ` in ${counted(found.partitionsTotal, 'partition')}`
  const cost = found.rebuildMs === null ? 'nobody knows the cost yet' : `about ${duration(found.rebuildMs)}`
  const key = found.partitions[0] === undefined ? '' : ` --partition ${quote(found.partitions[0])}`
  return `${rows} of older code${where}. \`freshline run ${quote(visible(asset.workflowSlug ?? ''))}${key} --full-refresh\` computes`
    + ` everything again (${cost}), \`freshline accept ${quote(visible(asset.assetId))}\` keeps them as they are.`
}
