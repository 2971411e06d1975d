import type { Camera, View } from './camera'

const SLIDE_MS = 160

/** A short motion of the camera, so that the eye can follow where something went. */
export class Motion {
  readonly #camera: Camera
  #slide: { from: View; to: View; start: number } | null = null

  constructor(camera: Camera) {
    this.#camera = camera
  }

  get active(): boolean {
    return this.#slide !== null
  }

  stop(): void {
    this.#slide = null
  }

  /** Move from a view to the camera's, unless the reader wants no motion. */
  start(from: View, fitted: boolean): void {
    const camera = this.#camera
    const to = camera.view
    if (!matchMedia('(prefers-reduced-motion: reduce)').matches) {
      camera.set(from)
      this.#slide = { from, to, start: performance.now() }
    }
    camera.fitted = fitted
  }

  /** Go on to where the camera is at this time. */
  advance(time: number): void {
    const slide = this.#slide
    if (slide === null) return
    const { fitted } = this.#camera
    const done = Math.min(1, Math.max(0, (time - slide.start) / SLIDE_MS))
    const part = 1 - (1 - done) ** 3
    const between = (from: number, to: number): number => from + (to - from) * part
    // Zoom changes by factors: then the speed looks even.
    const zoom = slide.from.zoom * (slide.to.zoom / slide.from.zoom) ** part
    this.#camera.set({ x: between(slide.from.x, slide.to.x), y: between(slide.from.y, slide.to.y), zoom })
    this.#camera.fitted = fitted
    if (done >= 1) this.#slide = null
  }
}
