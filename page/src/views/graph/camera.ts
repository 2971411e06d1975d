/** Which part of the drawing is seen: the point in the middle of the canvas, and pixels per unit. */
export interface View {
  readonly x: number
  readonly y: number
  readonly zoom: number
}

export const MOST_ZOOM = 2.5
/** Names are drawn from this zoom on; below it an asset is a coloured cell. */
export const NAMES_ZOOM = 0.46
/** Groups with frames are boxes with counts below this zoom. */
export const BOXES_ZOOM = 0.22
const MARGIN = 24

export class Camera {
  x = 0
  y = 0
  zoom = 1
  width = 1
  height = 1
  /** Whether the view is that of `fit`, which a resize repeats. */
  fitted = true
  #plan = { width: 1, height: 1 }

  resize(width: number, height: number): void {
    this.width = Math.max(1, width)
    this.height = Math.max(1, height)
    if (this.fitted) this.fit()
  }

  /** Take the size of another drawing. */
  over(plan: { width: number; height: number }): void {
    this.#plan = { width: Math.max(1, plan.width), height: Math.max(1, plan.height) }
  }

  get view(): View {
    return { x: this.x, y: this.y, zoom: this.zoom }
  }

  get fitZoom(): number {
    const wide = (this.width - 2 * MARGIN) / this.#plan.width
    const high = (this.height - 2 * MARGIN) / this.#plan.height
    return Math.max(0.005, Math.min(1, wide, high))
  }

  get leastZoom(): number {
    return this.fitZoom / 2
  }

  fit(): void {
    this.zoom = this.fitZoom
    this.x = this.#plan.width / 2
    this.y = this.#plan.height / 2
    this.fitted = true
  }

  pan(dx: number, dy: number): void {
    this.set({ x: this.x - dx / this.zoom, y: this.y - dy / this.zoom, zoom: this.zoom })
  }

  /** Zoom by a factor; the point under these pixels stays where it is. */
  zoomAt(factor: number, sx: number, sy: number): void {
    const zoom = this.#allowed(this.zoom * factor)
    this.pin(this.worldX(sx), this.worldY(sy), sx, sy, zoom)
  }

  /** Show a point of the drawing at these pixels. */
  pin(wx: number, wy: number, sx: number, sy: number, zoom: number): void {
    const allowed = this.#allowed(zoom)
    this.set({ x: wx - (sx - this.width / 2) / allowed, y: wy - (sy - this.height / 2) / allowed, zoom: allowed })
  }

  set(view: View): void {
    this.zoom = this.#allowed(view.zoom)
    // Some of the drawing stays in sight.
    const wide = (0.45 * this.width) / this.zoom
    const high = (0.45 * this.height) / this.zoom
    this.x = Math.min(this.#plan.width + wide, Math.max(-wide, view.x))
    this.y = Math.min(this.#plan.height + high, Math.max(-high, view.y))
    this.fitted = false
  }

  screenX(x: number): number {
    return (x - this.x) * this.zoom + this.width / 2
  }

  screenY(y: number): number {
    return (y - this.y) * this.zoom + this.height / 2
  }

  worldX(sx: number): number {
    return this.x + (sx - this.width / 2) / this.zoom
  }

  worldY(sy: number): number {
    return this.y + (sy - this.height / 2) / this.zoom
  }

  #allowed(zoom: number): number {
    return Math.min(MOST_ZOOM, Math.max(this.leastZoom, zoom))
  }
}
