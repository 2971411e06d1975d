/**
 * The states of assets, partitions and runs: a colour, a mark and a sentence each.
 *
 * The colours are those of Okabe and Ito, which people with any kind of colour blindness can tell apart. The mark says
 * the same without a colour.
 */
export interface StateLook {
  /** The name of the colour in style.css: `--state-NAME`. */
  readonly colour: string
  /** A path in a square of 16: drawn as strokes. */
  readonly mark: string
  readonly meaning: string
}

const check = 'M4 8.5l2.8 2.8L12 5.2'
const cross = 'M4.8 4.8l6.4 6.4M11.2 4.8l-6.4 6.4'
const play = 'M6 4.6v6.8l5.4-3.4z'
const clock = 'M8 4.4V8l2.6 1.8'
const wave = 'M3.6 9.4c1.4-2.6 3-2.6 4.4-1s3 1.6 4.4-1.2'
const question = 'M5.8 6.2c0-3 4.4-2.6 4.4-.2 0 1.8-2.2 1.8-2.2 3.4M8 11.9v.1'
const diamond = 'M8 4l4 4-4 4-4-4z'
const dash = 'M4.4 8h7.2'
const bang = 'M8 4v4.8M8 11.7v.1'
const dots = 'M4.6 8v.1M8 8v.1M11.4 8v.1'
const flake = 'M8 3.8v8.4M4.4 5.9l7.2 4.2M11.6 5.9l-7.2 4.2'

export const STATES: Readonly<Record<string, StateLook>> = {
  fresh: { colour: 'fresh', mark: check, meaning: 'computed from the current inputs, and not expired' },
  stale: { colour: 'stale', mark: wave, meaning: 'its inputs changed, or it expired' },
  running: { colour: 'running', mark: play, meaning: 'a run computes it now' },
  waiting: { colour: 'waiting', mark: clock, meaning: 'a run is queued, or held until something happens' },
  failing: { colour: 'failing', mark: cross, meaning: 'its last runs failed' },
  missing: { colour: 'missing', mark: question, meaning: 'it was never produced' },
  overdue: { colour: 'overdue', mark: bang, meaning: 'older than its maxAge promises' },
  source: { colour: 'source', mark: diamond, meaning: 'made outside; its changes are reported' },
  retired: { colour: 'retired', mark: dash, meaning: 'nobody produces, reads or reports it any more' },
  // Partitions
  failed: { colour: 'failing', mark: cross, meaning: 'its last runs failed' },
  frozen: { colour: 'frozen', mark: flake, meaning: 'its inputs changed, and it is too old to run by itself' },
  // Runs and steps
  queued: { colour: 'waiting', mark: dots, meaning: 'it waits for a worker' },
  succeeded: { colour: 'fresh', mark: check, meaning: 'its outputs are published' },
  canceled: { colour: 'retired', mark: dash, meaning: 'it was canceled' },
  lost: { colour: 'missing', mark: question, meaning: 'its worker was lost' },
  // Backfills
  proposed: { colour: 'stale', mark: question, meaning: 'it waits for an approval' },
  active: { colour: 'running', mark: play, meaning: 'its partitions are computed' },
  paused: { colour: 'waiting', mark: clock, meaning: 'it goes on when it is resumed' },
  finished: { colour: 'fresh', mark: check, meaning: 'all its partitions had their turn' },
  denied: { colour: 'retired', mark: dash, meaning: 'its partitions stay as they are' },
  refused: { colour: 'missing', mark: dash, meaning: 'it cannot be computed' },
  done: { colour: 'fresh', mark: check, meaning: 'it had its turn' },
  rest: { colour: 'retired', mark: dots, meaning: 'its turn has not come' },
  // Decisions and fates of events
  run: { colour: 'running', mark: play, meaning: 'a run was queued' },
  hold: { colour: 'waiting', mark: clock, meaning: 'there is a cause, but it must wait' },
  skip: { colour: 'retired', mark: dash, meaning: 'there is nothing to do' },
  error: { colour: 'failing', mark: cross, meaning: 'it could not be decided' },
  triggered: { colour: 'running', mark: play, meaning: 'it caused a run' },
  included: { colour: 'fresh', mark: check, meaning: 'a run that was queued for something else reads it' },
  superseded: { colour: 'retired', mark: dash, meaning: 'a newer change is read instead' },
  held: { colour: 'waiting', mark: clock, meaning: 'it will be read; the last decision says why not yet' },
  ignored: { colour: 'retired', mark: dash, meaning: 'it causes no run' },
  pending: { colour: 'waiting', mark: dots, meaning: 'it was not evaluated yet' },
  // Processes, deliveries, incidents
  live: { colour: 'fresh', mark: check, meaning: 'it reported a moment ago' },
  silent: { colour: 'failing', mark: cross, meaning: 'it has not reported for a while' },
  stopped: { colour: 'retired', mark: dash, meaning: 'it ended' },
  sent: { colour: 'fresh', mark: check, meaning: 'it was delivered' },
  dead: { colour: 'failing', mark: cross, meaning: 'it was given up' },
  open: { colour: 'failing', mark: bang, meaning: 'it is still wrong' },
  closed: { colour: 'retired', mark: check, meaning: 'it ended' },
  ok: { colour: 'fresh', mark: check, meaning: 'nothing is wrong' },
  changed: { colour: 'running', mark: diamond, meaning: 'its content differs from the version before' },
  identical: { colour: 'retired', mark: dash, meaning: 'its content equals the version before' },
  passed: { colour: 'fresh', mark: check, meaning: 'the check passed' },
}

const UNKNOWN: StateLook = { colour: 'retired', mark: question, meaning: '' }

/** Return the look of a state; of one that a newer server has, a neutral one. */
export const look = (state: string): StateLook => (Object.hasOwn(STATES, state) ? STATES[state]! : UNKNOWN)

/** The order in which states of assets need attention. */
export const ASSET_STATES = ['failing', 'missing', 'overdue', 'stale', 'waiting', 'running', 'fresh', 'source', 'retired'] as const
export const PARTITION_STATES = ['failed', 'missing', 'stale', 'frozen', 'running', 'fresh'] as const
