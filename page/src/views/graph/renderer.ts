import { blockAt, CELL, slotAt, slotsIn, type Arrangement, type Block } from './arrange'
import { Camera, NAMES_ZOOM, type View } from './camera'
import { follow } from './gestures'
import type { GraphModel } from './model'
import { Motion } from './motion'
import { folded, paintBoxes, paintFrames } from './boxes'
import { outline, paintCells } from './cells'
import { Edges, paintBundles, paintEdgesOf } from './edges'
import { readPalette, type Palette } from './palette'
import { Labels, Tallies, type Scene } from './scene'

/** What the canvas tells the view. */
export interface Listener {
  focused(node: number): void
  opened(node: number): void
  boxed(block: Block): void
  /** The node under the pointer and where its cell is; -1: none. */
  hovered(node: number, x: number, y: number): void
  moved(view: View | null): void
}

const SETTLED_MS = 300
const EDGE_PX = 40
const PHONE_PX = 600
const MOST_READABLE = 200

/** Draws the graph on a canvas, when something changed, once per frame at most. */
export class Renderer {
  readonly camera = new Camera()
  readonly #motion = new Motion(this.camera)
  readonly #canvas: HTMLCanvasElement
  readonly #context: CanvasRenderingContext2D
  readonly #listener: Listener
  readonly #edges = new Edges()
  readonly #tallies = new Tallies()
  readonly #unfollow: () => void
  readonly #sizes: ResizeObserver
  #palette: Palette = readPalette()
  #model: GraphModel | null = null
  #plan: Arrangement | null = null
  #states: Uint8Array = new Uint8Array()
  #labels = new Labels([])
  #visible: Uint32Array = new Uint32Array()
  #focus = -1
  #hover = -1
  #box = -1
  #frame = 0
  #kept: View | null = null
  #settling: ReturnType<typeof setTimeout> | undefined

  constructor(canvas: HTMLCanvasElement, listener: Listener) {
    const context = canvas.getContext('2d', { alpha: false })
    if (context === null) throw new Error('This browser draws no canvas.')
    this.#canvas = canvas
    this.#context = context
    this.#listener = listener
    this.#sizes = new ResizeObserver(() => this.#resize())
    this.#sizes.observe(canvas)
    this.#unfollow = follow(canvas, {
      pan: (dx, dy) => this.#move(() => this.camera.pan(dx, dy)),
      zoom: (factor, x, y) => this.#move(() => this.camera.zoomAt(factor, x, y)),
      click: (x, y) => this.#click(x, y),
      open: (x, y) => {
        const node = this.#nodeAt(x, y)
        if (node >= 0) this.#listener.opened(node)
      },
      hover: (x, y) => this.#point(x, y),
      leave: () => this.#point(-1, -1),
    })
    this.#resize()
  }

  destroy(): void {
    this.#unfollow()
    this.#sizes.disconnect()
    cancelAnimationFrame(this.#frame)
    clearTimeout(this.#settling)
  }

  /** Draw other assets. `states` is read in every frame: its owner changes it and calls `repaint`. */
  load(model: GraphModel, states: Uint8Array): void {
    this.#model = model
    this.#states = states
    // Another plan follows at once. New definitions do not move the camera.
    if (this.#plan !== null) this.#kept = this.camera.view
    this.#plan = null
    this.#hover = -1
  }

  /**
   * Draw another arrangement. A focused asset that is in both stays under the pointer; without one everything that is
   * shown is fitted in. `view`: where to look instead.
   */
  arrange(plan: Arrangement, focus: number, view: View | null): void {
    const before = this.#plan
    const { camera } = this
    const old = before === null ? -1 : before.slots[focus] ?? -1
    const slot = plan.slots[focus] ?? -1
    const at = old < 0 ? null : { x: camera.screenX(before!.x[old]!), y: camera.screenY(before!.y[old]!) }
    this.#plan = plan
    this.#labels = Labels.of(this.#model!, plan)
    this.#focus = focus
    this.#box = -1
    this.#motion.stop()
    this.#visible = new Uint32Array(plan.nodes.length)
    this.#tallies.expire()
    camera.over(plan)
    if (view !== null) camera.set(view)
    else if (at !== null && slot >= 0 && this.#onCanvas(at)) {
      camera.pin(plan.x[slot]!, plan.y[slot]!, at.x, at.y, Math.max(Math.min(1, camera.zoom), camera.fitZoom))
    } else if (this.#kept !== null && !camera.fitted) camera.set(this.#kept)
    else this.#start()
    this.#kept = null
    if (before !== null && view === null) this.#settle()
    this.invalidate()
  }

  focus(node: number): void {
    if (this.#focus === node) return
    this.#focus = node
    this.invalidate()
  }

  look(view: View | null): void {
    this.#motion.stop()
    if (view === null) this.camera.fit()
    else this.camera.set(view)
    this.invalidate()
  }

  /** States changed. */
  repaint(): void {
    this.#tallies.expire()
    this.invalidate()
  }

  /** The theme changed. */
  recolour(): void {
    this.#palette = readPalette()
    this.invalidate()
  }

  fit(): void {
    const { camera } = this
    const before = camera.view
    camera.fit()
    this.#glide(before, true)
  }

  zoom(factor: number): void {
    const { camera } = this
    const before = camera.view
    const slot = this.#plan?.slots[this.#focus] ?? -1
    const x = slot < 0 ? camera.width / 2 : camera.screenX(this.#plan!.x[slot]! + CELL.width / 2)
    const y = slot < 0 ? camera.height / 2 : camera.screenY(this.#plan!.y[slot]! + CELL.height / 2)
    const inside = this.#onCanvas({ x, y })
    camera.zoomAt(factor, inside ? x : camera.width / 2, inside ? y : camera.height / 2)
    this.#glide(before, false)
  }

  pan(dx: number, dy: number): void {
    this.#move(() => this.camera.pan(dx, dy))
  }

  /** Move as little as needed to see a node, and near enough to read its name if `read`. */
  reveal(node: number, read: boolean): void {
    const slot = this.#plan?.slots[node] ?? -1
    if (slot < 0) return
    const { camera } = this
    const before = camera.view
    const zoom = read ? Math.max(camera.zoom, 0.8) : camera.zoom
    const x = camera.screenX(this.#plan!.x[slot]! + CELL.width / 2)
    const y = camera.screenY(this.#plan!.y[slot]! + CELL.height / 2)
    const wide = Math.min(camera.width / 2, (CELL.width / 2) * zoom + EDGE_PX)
    const high = Math.min(camera.height / 2, (CELL.height / 2) * zoom + EDGE_PX)
    const sx = Math.min(camera.width - wide, Math.max(wide, x))
    const sy = Math.min(camera.height - high, Math.max(high, y))
    if (sx === x && sy === y && zoom === camera.zoom) return
    camera.pin(this.#plan!.x[slot]! + CELL.width / 2, this.#plan!.y[slot]! + CELL.height / 2, sx, sy, zoom)
    this.#glide(before, false)
  }

  /** Show a block as large as possible. */
  approach(block: Block): void {
    const { camera } = this
    const before = camera.view
    const zoom = Math.min(1, (camera.width - 48) / block.width, (camera.height - 48) / block.height)
    camera.set({ x: block.x + block.width / 2, y: block.y + block.height / 2, zoom: Math.max(zoom, 0.25) })
    this.#glide(before, false)
  }

  /**
   * Show everything. On a phone nothing could be read then: a few assets are shown so that they can be, with the focus
   * or what needs attention most in the middle.
   */
  #start(): void {
    const { camera } = this
    camera.fit()
    const plan = this.#plan!
    if (camera.width > PHONE_PX || camera.zoom >= NAMES_ZOOM || plan.nodes.length > MOST_READABLE) return
    let slot = plan.slots[this.#focus] ?? -1
    if (slot < 0) {
      slot = 0
      for (let one = 1; one < plan.nodes.length; one += 1) {
        if (this.#states[plan.nodes[one]!]! < this.#states[plan.nodes[slot]!]!) slot = one
      }
    }
    camera.set({ x: plan.x[slot]! + CELL.width / 2, y: plan.y[slot]! + CELL.height / 2, zoom: 0.6 })
    // A column that would be cut off at the left is shown whole: names are read from there.
    const left = camera.worldX(12)
    const cut = [...plan.x].filter((x) => x < left && x + CELL.width > left)
    if (cut.length > 0) camera.set({ ...camera.view, x: camera.x - (left - Math.min(...cut)) })
  }

  get centre(): { x: number; y: number } {
    return { x: this.camera.x, y: this.camera.y }
  }

  invalidate(): void {
    if (this.#frame === 0) this.#frame = requestAnimationFrame((time) => this.#draw(time))
  }

  #draw(time: number): void {
    this.#frame = 0
    const { camera } = this
    if (this.#motion.active) {
      this.#motion.advance(time)
      if (this.#motion.active) this.invalidate()
    }
    const context = this.#context
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0)
    context.fillStyle = this.#palette.panel
    context.fillRect(0, 0, camera.width, camera.height)
    const scene = this.#scene()
    if (scene !== null) this.#paint(scene)
  }

  #paint(scene: Scene): void {
    const { camera, plan, palette } = scene
    if (folded(scene)) {
      const marked = this.#box >= 0 ? this.#box : this.#blockOf(scene.focus)
      if (plan.grouping === 'boxes') paintBundles(scene, marked)
      paintBoxes(scene, marked)
      return
    }
    const count = slotsIn(
      plan, camera.worldX(0), camera.worldY(0), camera.worldX(camera.width), camera.worldY(camera.height), this.#visible)
    paintFrames(scene, this.#box)
    this.#edges.paint(scene, this.#visible, count)
    // With names, edges of the focus run behind the cells; small cells would hide them.
    const near = camera.zoom >= NAMES_ZOOM
    if (near) this.#marked(scene)
    paintCells(scene, this.#visible, count)
    if (!near) this.#marked(scene)
    if (scene.hover >= 0) outline(scene, scene.hover, palette.quiet, 1)
    if (scene.focus >= 0) outline(scene, scene.focus, palette.accent, 2)
  }

  #marked(scene: Scene): void {
    if (scene.hover >= 0 && scene.hover !== scene.focus) paintEdgesOf(scene, scene.hover, scene.palette.quiet, 1)
    if (scene.focus >= 0) paintEdgesOf(scene, scene.focus, scene.palette.accent, 1.5)
  }

  #scene(): Scene | null {
    if (this.#model === null || this.#plan === null) return null
    return {
      context: this.#context, camera: this.camera, model: this.#model, plan: this.#plan, states: this.#states,
      palette: this.#palette, labels: this.#labels, tallies: this.#tallies, focus: this.#focus, hover: this.#hover,
    }
  }

  #blockOf(node: number): number {
    const slot = this.#plan?.slots[node] ?? -1
    return slot < 0 ? -1 : this.#plan!.blocks.findIndex((one) => slot >= one.first && slot < one.first + one.count)
  }

  #resize(): void {
    const { clientWidth, clientHeight } = this.#canvas
    if (clientWidth === 0 || clientHeight === 0) return
    this.#canvas.width = Math.round(clientWidth * devicePixelRatio)
    this.#canvas.height = Math.round(clientHeight * devicePixelRatio)
    this.camera.resize(clientWidth, clientHeight)
    // A canvas that gets another size is empty: it is drawn in the same frame.
    cancelAnimationFrame(this.#frame)
    this.#draw(performance.now())
  }

  #nodeAt(x: number, y: number): number {
    const { camera } = this
    if (this.#plan === null || folded({ plan: this.#plan, camera })) return -1
    const slot = slotAt(this.#plan, camera.worldX(x), camera.worldY(y), 2 / camera.zoom)
    return slot < 0 ? -1 : this.#plan.nodes[slot]!
  }

  #boxAt(x: number, y: number): number {
    const { camera } = this
    if (this.#plan === null || !folded({ plan: this.#plan, camera })) return -1
    return blockAt(this.#plan, camera.worldX(x), camera.worldY(y))
  }

  #click(x: number, y: number): void {
    const box = this.#boxAt(x, y)
    if (box >= 0) this.#listener.boxed(this.#plan!.blocks[box]!)
    else this.#listener.focused(this.#nodeAt(x, y))
  }

  #point(x: number, y: number): void {
    const inside = x >= 0 && y >= 0
    const node = inside ? this.#nodeAt(x, y) : -1
    const box = inside ? this.#boxAt(x, y) : -1
    if (node === this.#hover && box === this.#box) return
    this.#hover = node
    this.#box = box
    this.#canvas.style.cursor = node >= 0 || box >= 0 ? 'pointer' : 'grab'
    const slot = node < 0 ? -1 : this.#plan!.slots[node]!
    const { camera } = this
    this.#listener.hovered(
      node,
      slot < 0 ? 0 : camera.screenX(this.#plan!.x[slot]!),
      slot < 0 ? 0 : camera.screenY(this.#plan!.y[slot]! + CELL.height))
    this.invalidate()
  }

  #move(change: () => void): void {
    this.#motion.stop()
    change()
    if (this.#hover >= 0) this.#point(-1, -1)
    this.#settle()
    this.invalidate()
  }

  #glide(before: View, fitted: boolean): void {
    this.#motion.start(before, fitted)
    this.#settle()
    this.invalidate()
  }

  /** Tell the view where the camera is, a moment after the last motion. */
  #settle(): void {
    clearTimeout(this.#settling)
    this.#settling = setTimeout(() => {
      const { camera } = this
      this.#listener.moved(camera.fitted ? null : camera.view)
    }, SETTLED_MS)
  }

  #onCanvas(at: { x: number; y: number }): boolean {
    return at.x >= 0 && at.y >= 0 && at.x <= this.camera.width && at.y <= this.camera.height
  }
}
