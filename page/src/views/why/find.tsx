import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { get } from '../../api'
import { visible } from '../../format'
import { useLoad } from '../../load'
import { Body, Empty, Heading } from '../../parts/basics'
import { Cli } from '../../parts/cli'
import { href, route, setQuery } from '../../router'
import type { Page } from '../../types'

interface Name {
  readonly kind: 'asset' | 'workflow'
  readonly name: string
}

const SHOWN = 50

/** Search for what is to be explained, by the beginning of its name. */
export function Find() {
  const prefix = route.value.query.q ?? ''
  const text = useSignal(prefix)
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => field.current?.focus(), [])
  useEffect(() => {
    const timer = setTimeout(() => setQuery({ q: text.value.trim() }), 200)
    return () => clearTimeout(timer)
  }, [text.value])
  const loaded = useLoad(`names ${prefix}`, (stop) => get<Page<Name>>('names', { prefix, limit: SHOWN + 1 }, stop))
  return (
    <>
      <Heading title="Why" />
      <p>Why was an asset produced, or why was it not? Every decision is stored with its evidence, so the question has an answer for any time that is kept.</p>
      <div class="field why-find">
        <label for="why-name">Asset or workflow</label>
        <input id="why-name" ref={field} type="search" value={text.value} placeholder="the beginning of its name" spellcheck={false} autocomplete="off"
          onInput={(event) => { text.value = event.currentTarget.value }}
          onKeyDown={(event) => {
            const [first] = loaded.data?.items ?? []
            if (event.key === 'Enter' && first !== undefined) location.hash = href(['why', first.name])
          }} />
      </div>
      <Body from={loaded} lines={6}>
        {({ items }) => items.length === 0 ? (
          <Empty title={prefix === '' ? 'Nothing was applied yet.' : `No name begins with ${visible(prefix)}.`}>
            <p><code>freshline apply</code> makes assets and workflows known.</p>
          </Empty>
        ) : (
          <ul class="plain why-names" aria-label="Names">
            {items.slice(0, SHOWN).map((one) => (
              <li key={`${one.kind} ${one.name}`}><a class="name" href={href(['why', one.name])}>{visible(one.name)}</a> <span class="kind">{one.kind}</span></li>
            ))}
            {items.length > SHOWN ? <li class="quiet">There are more. Type to see them.</li> : null}
          </ul>
        )}
      </Body>
      <Cli command="freshline why ASSET" />
    </>
  )
}
