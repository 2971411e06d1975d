import { visible, words } from '../../format'
import { absolute } from '../../time'
import type { Hold } from '../../types'

/** Return a hold in a few words, as `freshline status` shows it: `waiting for upstream shop-totals until …`. */
export function holdText(hold: Hold): string {
  const blocker = hold.blocker === null ? '' : ` ${visible(hold.blocker)}`
  const until = hold.until === null ? '' : ` until ${absolute(hold.until)}`
  return `${words(hold.reason)}${blocker}${until}`
}
