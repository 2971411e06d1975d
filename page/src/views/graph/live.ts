import type { FreshlineEvent } from '../../types'
import { codeOf, isSource, needsAttention, neighbours, RETIRED, RUNNING, stateOf, type AssetStates, type GraphModel } from './model'

/** Between two reads of states: a hundred changes a second become a few requests. */
const PACE_MS = 700
/**
 * Holds, and decisions that nothing is to be done, have no event: what an event touched is read once more after the
 * decision, and a few times more while it is not fresh.
 */
const AGAIN_MS = 4000
const AGAIN_TIMES = 6
/** Pauses and resets have no event either. */
const ALL_MS = 60_000
/** More than this at once are read as all states. */
const MOST = 600
const MOST_CHARACTERS = 6000

export interface Source {
  /** Read the states of these assets, or of all (null). */
  read(assets: readonly string[] | null, stop: AbortSignal): Promise<AssetStates>
  /** States changed. */
  changed(): void
  /** The definitions are other ones than those of the model. */
  outdated(): void
  failed(error: unknown): void
}

/**
 * The states of all assets, live.
 *
 * An event says which assets may have changed: its own, what reads it, and what its workflow makes. These are read
 * again, at most every 0.7 s. An answer is taken only if it was read after the last event about the asset.
 */
export class LiveStates {
  readonly values: Uint8Array
  /** Whether the first answer is there. */
  ready = false

  readonly #model: GraphModel
  readonly #source: Source
  readonly #dirty = new Set<number>()
  /** How often each asset is read again without another event. */
  readonly #again = new Map<number, number>()
  /** The position of the last event about each asset. */
  readonly #touched: Float64Array
  readonly #ended = new AbortController()
  #all = true
  #busy = false
  #last = 0
  #timer: ReturnType<typeof setTimeout> | undefined
  readonly #every: ReturnType<typeof setInterval>
  #since = Date.now()

  constructor(model: GraphModel, source: Source) {
    this.#model = model
    this.#source = source
    this.values = new Uint8Array(model.size).fill(RETIRED)
    this.#touched = new Float64Array(model.size)
    this.#every = setInterval(() => this.#repeat(), AGAIN_MS)
    void this.#read()
  }

  stop(): void {
    this.#ended.abort()
    clearTimeout(this.#timer)
    clearInterval(this.#every)
  }

  /** Read everything again. */
  reload(): void {
    this.#all = true
    // The read that follows is later than every event so far. After a restore, positions begin at lower numbers again.
    this.#touched.fill(0)
    this.#schedule()
  }

  take(events: readonly FreshlineEvent[]): void {
    let changed = false
    for (const event of events) changed = this.#takeOne(event) || changed
    if (changed) this.#source.changed()
    if (this.#dirty.size > 0 || this.#all) this.#schedule()
  }

  #takeOne(event: FreshlineEvent): boolean {
    const position = event.position ?? 0
    if (event.type === 'workflow.definition.updated') {
      this.#source.outdated()
      return false
    }
    const asset = this.#model.numberOf(text(event.data.assetId) ?? event.subject)
    if (asset >= 0) {
      this.#touch(asset, position)
      // What reads it is stale from now on; no event says so until its run is queued.
      for (const reader of neighbours(this.#model.outputs, asset)) this.#touch(reader, position)
    }
    let changed = false
    for (const node of this.#model.made.get(text(event.data.workflowSlug) ?? '') ?? []) {
      this.#touch(node, position)
      // The start of a run is the state itself, so the wave shows before it is read.
      if (event.type === 'workflow.run.started') changed = this.#set(node, RUNNING) || changed
    }
    return changed
  }

  #touch(node: number, position: number): void {
    this.#dirty.add(node)
    this.#again.set(node, AGAIN_TIMES)
    if (position > this.#touched[node]!) this.#touched[node] = position
  }

  #set(node: number, code: number): boolean {
    const before = this.values[node]!
    if (before === code || (code === RUNNING && (isSource(before) || before === RETIRED))) return false
    this.values[node] = code
    return true
  }

  #repeat(): void {
    if (document.visibilityState !== 'visible') return
    if (Date.now() - this.#since >= ALL_MS) {
      this.reload()
      return
    }
    for (const [node, times] of this.#again) {
      this.#dirty.add(node)
      const more = times > 1 && (times === AGAIN_TIMES || needsAttention(this.values[node]!))
      if (more) this.#again.set(node, times - 1)
      else this.#again.delete(node)
    }
    if (this.#dirty.size > 0 || this.#all) this.#schedule()
  }

  #schedule(): void {
    if (this.#ended.signal.aborted || this.#busy || this.#timer !== undefined) return
    // Nobody looks at a hidden tab; it reads when it is seen again.
    if (this.ready && document.visibilityState !== 'visible') return
    this.#timer = setTimeout(() => void this.#read(), Math.max(60, PACE_MS - (Date.now() - this.#last)))
  }

  async #read(): Promise<void> {
    this.#timer = undefined
    this.#busy = true
    const all = this.#all || this.#dirty.size > MOST
    const asked = all ? [] : this.#take()
    if (all) {
      this.#all = false
      this.#dirty.clear()
      this.#since = Date.now()
    }
    try {
      const found = await this.#source.read(all ? null : asked.map((node) => this.#model.ids[node]!), this.#ended.signal)
      if (this.#ended.signal.aborted) return
      this.#apply(found)
    } catch (error) {
      if (this.#ended.signal.aborted) return
      if (all) this.#all = true
      for (const node of asked) this.#dirty.add(node)
      this.#last = Date.now() + 2000
      this.#source.failed(error)
    } finally {
      this.#busy = false
      this.#last = Math.max(this.#last, Date.now())
      if (this.#dirty.size > 0 || this.#all) this.#schedule()
    }
  }

  #take(): number[] {
    const asked: number[] = []
    let characters = 0
    for (const node of this.#dirty) {
      characters += encodeURIComponent(this.#model.ids[node]!).length + 7
      if (asked.length > 0 && characters > MOST_CHARACTERS) break
      asked.push(node)
      this.#dirty.delete(node)
    }
    return asked
  }

  #apply(found: AssetStates): void {
    let changed = !this.ready
    this.ready = true
    for (const [id, state] of Object.entries(found.states)) {
      const node = this.#model.numberOf(id)
      if (node < 0) continue
      if (this.#touched[node]! > found.position) {
        // It was read before the last event about it.
        this.#dirty.add(node)
        continue
      }
      const code = codeOf(state)
      if (this.values[node] !== code) {
        this.values[node] = code
        changed = true
      }
    }
    if (changed) this.#source.changed()
    if (found.epoch !== this.#model.epoch) this.#source.outdated()
  }
}

const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

/** Count the shown assets by state. */
export function tally(states: Uint8Array, mask: Uint8Array): Map<string, number> {
  const counts = new Map<string, number>()
  for (let node = 0; node < states.length; node += 1) {
    if (!mask[node]) continue
    const state = stateOf(states[node]!)
    counts.set(state, (counts.get(state) ?? 0) + 1)
  }
  return counts
}
