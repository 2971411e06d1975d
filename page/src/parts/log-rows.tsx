import { useMemo } from 'preact/hooks'
import { logText, visible } from '../format'
import { href, route } from '../router'
import type { LogLine } from '../types'
import { pieces, type Block } from './log-window'

const HEIGHT = 20

/** The rows of a log, in blocks. A block that is the same as before is neither compared nor drawn again. */
export function Rows({ blocks, find, match }: { blocks: readonly Block[]; find: string; match: number | null }) {
  return (
    <>
      {blocks.map((one) => {
        const here = match !== null && one.lines.some((line) => line.line === match) ? match : null
        return <Rest key={one.number} block={one} find={find} match={here} />
      })}
    </>
  )
}

function Rest({ block, find, match }: { block: Block; find: string; match: number | null }) {
  return useMemo(() => (
    // The browser lays out only blocks that are near the view; others count with this height.
    <div class="log-block" style={{ containIntrinsicSize: `auto ${block.lines.length * HEIGHT}px` }}>
      {block.lines.map((line, index) => (
        <Row key={line.line} line={line} before={index === 0 ? block.before : block.lines[index - 1]!} find={find}
          current={line.line === match} />
      ))}
    </div>
  ), [block, find, match])
}

function Row({ line, before, find, current }: { line: LogLine; before: LogLine | null; find: string; current: boolean }) {
  const begins = before === null || before.stepId !== line.stepId || before.attempt !== line.attempt
  return (
    <>
      {begins ? <div class="log-step">step {visible(line.stepId)}, attempt {line.attempt}</div> : null}
      <div class={`log-line log-${line.stream === 'stderr' ? 'error' : line.stream === 'log' ? 'record' : 'out'}${current ? ' current' : ''}`} data-line={line.line}>
        <a class="log-number" href={link(line.line)} aria-label={`Line ${line.line}`} title={`${line.at}, ${visible(line.stream)}`}>{line.line}</a>
        <span class="log-time" title={line.at}>{clock(line.at)}</span>
        <span class="log-text">{marked(logText(line.text), find)}</span>
      </div>
    </>
  )
}

function marked(text: string, find: string) {
  const parts = pieces(text, find)
  if (parts.length === 1) return text === '' ? ' ' : text
  return parts.map((part, index) => (index % 2 === 1 ? <mark key={index}>{part}</mark> : part))
}

/** Return the address of a line: a link to send to somebody. */
const link = (line: number): string => href(route.peek().path, { ...route.peek().query, line })

const two = (n: number): string => String(n).padStart(2, '0')

/** Return the time of a line in the reader's zone. For thousands of lines the browser's own format is too slow. */
function clock(at: string): string {
  const time = new Date(at)
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`
}

/** Return a line as it is copied. */
export const plain = (line: LogLine): string => logText(line.text)
