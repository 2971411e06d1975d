import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { loginNeeded, serverVersion } from '../api'
import { session } from '../session'
import { stream } from '../stream'

/** A connection that is back within this time was no news. */
const SHORT_MS = 600

/** What concerns the whole page. It lies over the view's lower edge, so that nothing moves when it comes and goes. */
export function Banners() {
  return (
    <div class="banners">
      <Lost />
      <OtherVersion />
    </div>
  )
}

function Lost() {
  const lost = stream().connection.value === 'lost' && session.value !== null && !loginNeeded.value
  const shown = useSignal(false)
  useEffect(() => {
    if (!lost) {
      shown.value = false
      return
    }
    const timer = setTimeout(() => {
      shown.value = true
    }, SHORT_MS)
    return () => clearTimeout(timer)
  }, [lost])
  return (
    <div role="alert">
      {shown.value ? (
        <div class="banner banner-warn banner-high">
          <span>Lost the connection; trying again. What you see may be old.</span>
        </div>
      ) : null}
    </div>
  )
}

/** The version that this page came from: that of the first answer. */
let first: string | null = null

function OtherVersion() {
  const version = serverVersion.value
  first ??= version
  const hidden = useSignal<string | null>(null)
  if (version === null || version === first || hidden.value === version) return null
  return (
    <div class="banner banner-info banner-high" role="status">
      <span>The server now runs {version}; this page is from {first}.</span>
      <span class="row">
        <button type="button" class="small" onClick={() => location.reload()}>Load the new page</button>
        <button type="button" class="small" onClick={() => { hidden.value = version }}>Later</button>
      </span>
    </div>
  )
}
