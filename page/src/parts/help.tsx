import { signal } from '@preact/signals'
import { LETTERS, titleOf } from '../views'
import { Overlay } from './overlay'
import './overlay.css'

export const helpOpen = signal(false)

/** The keys of the page. */
export function Help() {
  const close = (): void => {
    helpOpen.value = false
  }
  return (
    <Overlay label="Keyboard" class="help" close={close}>
      <div class="help-head">
        <h2>Keyboard</h2>
        <button type="button" class="small" onClick={close}>Close</button>
      </div>
      <dl class="keys">
        <Keys keys={['/']} text="Search assets, workflows, pages and what can be done here" />
        <Keys keys={['?']} text="This help" />
        <Keys keys={['Esc']} text="Close what is open" />
        {Object.entries(LETTERS).map(([letter, section]) => (
          <Keys key={letter} keys={['g', letter]} text={`Go to ${titleOf(section)}`} />
        ))}
        <Keys keys={['Tab']} text="To the next link, button or field" />
        <Keys keys={['↑', '↓']} text="In the search and in the graph: move" />
        <Keys keys={['Enter']} text="Open what is selected" />
      </dl>
    </Overlay>
  )
}

function Keys({ keys, text }: { keys: readonly string[]; text: string }) {
  return (
    <div>
      <dt>{keys.map((one) => <kbd key={one}>{one}</kbd>)}</dt>
      <dd>{text}</dd>
    </div>
  )
}
