import { visible } from '../../format'
import { ASSET_STATES } from '../../states'
import type { Arrangement } from './arrange'
import type { Camera } from './camera'
import type { GraphModel } from './model'
import type { Palette } from './palette'

/** What a frame is drawn from. The painters only read it. */
export interface Scene {
  readonly context: CanvasRenderingContext2D
  readonly camera: Camera
  readonly model: GraphModel
  readonly plan: Arrangement
  readonly states: Uint8Array
  readonly palette: Palette
  readonly labels: Labels
  readonly tallies: Tallies
  /** The node that has the focus, and the one under the pointer; -1: none. */
  readonly focus: number
  readonly hover: number
}

/** Names as they are drawn: cut to the width of a cell, and kept until the width changes. */
export class Labels {
  readonly #whole: readonly string[]
  readonly #cut: string[]
  readonly #length: Int16Array

  constructor(names: readonly string[]) {
    this.#whole = names.map(visible)
    this.#cut = this.#whole.slice()
    this.#length = new Int16Array(names.length).fill(-1)
  }

  /** Return the names for an arrangement: in the frame of its group an asset needs no prefix. */
  static of(model: GraphModel, plan: Arrangement): Labels {
    if (plan.grouping !== 'prefix') return new Labels(model.ids)
    return new Labels(model.ids.map((id, node) => {
      const group = model.groups[model.group[node]!] ?? ''
      return group !== '' && id.startsWith(`${group}.`) ? id.slice(group.length + 1) : id
    }))
  }

  /** Return the name in at most so many characters. The end says more than the middle, and so does the beginning. */
  text(number: number, most: number): string {
    const whole = this.#whole[number]!
    if (whole.length <= most) return whole
    if (this.#length[number] !== most) {
      this.#length[number] = most
      this.#cut[number] = shortened(whole, most)
    }
    return this.#cut[number]!
  }
}

export function shortened(text: string, most: number): string {
  if (text.length <= most) return text
  if (most < 4) return `${text.slice(0, Math.max(0, most - 1))}…`
  const head = Math.floor((most - 1) * 0.4)
  return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`
}

/** How many assets of each block are in each state; counted again only after a change. */
export class Tallies {
  readonly width = ASSET_STATES.length
  #counts = new Uint32Array()
  #dirty = true

  expire(): void {
    this.#dirty = true
  }

  of(plan: Arrangement, states: Uint8Array): Uint32Array {
    if (!this.#dirty && this.#counts.length === plan.blocks.length * this.width) return this.#counts
    if (this.#counts.length !== plan.blocks.length * this.width) {
      this.#counts = new Uint32Array(plan.blocks.length * this.width)
    } else this.#counts.fill(0)
    for (let number = 0; number < plan.blocks.length; number += 1) {
      const block = plan.blocks[number]!
      for (let slot = block.first; slot < block.first + block.count; slot += 1) {
        this.#counts[number * this.width + states[plan.nodes[slot]!]!]! += 1
      }
    }
    this.#dirty = false
    return this.#counts
  }
}

/** The sizes of text that are used: each new one costs the browser a set of glyphs. */
const SIZES = [9, 10, 11, 12, 14, 16, 20, 24] as const

export function fontSize(zoom: number): number {
  // Small cells have larger letters than their size says, because they must be read.
  const wanted = Math.max(12.6 * zoom, Math.min(12, 18 * zoom))
  return SIZES.findLast((one) => one <= wanted) ?? SIZES[0]
}

/** The width of a character of the fixed-width font, per size. */
const widths = new Map<string, number>()

/** Choose the font of the following texts; return the width of a character. */
export function useFont(context: CanvasRenderingContext2D, size: number, family: string): number {
  context.font = `${size}px ${family}`
  let width = widths.get(context.font)
  if (width === undefined) {
    width = context.measureText('0'.repeat(40)).width / 40
    widths.set(context.font, width)
  }
  return width
}
