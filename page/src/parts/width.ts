import { useSignal } from '@preact/signals'
import { useLayoutEffect, useRef } from 'preact/hooks'

/** The width of an element, for pictures that are drawn for it; 0 until it is known. */
export function useWidth() {
  const box = useRef<HTMLDivElement>(null)
  const width = useSignal(0)
  useLayoutEffect(() => {
    const element = box.current
    if (element === null) return
    const measure = (): void => {
      width.value = Math.floor(element.clientWidth)
    }
    measure()
    const observer = new ResizeObserver(measure)
    observer.observe(element)
    return () => observer.disconnect()
  }, [])
  return { box, width: width.value }
}
