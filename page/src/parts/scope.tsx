import { loginNeeded } from '../api'
import { may } from '../session'
import { Cli } from './cli'

type Scope = 'read' | 'operate' | 'admin' | 'data'

/** Says which token a view or an action needs, if the reader does not have it. `to`: what it is needed for. */
export function Needs({ scope, to }: { scope: Scope; to: string }) {
  if (may(scope)) return null
  return (
    <div class="banner banner-info needs">
      <span>
        A token with the scope <code>{scope}</code> is needed to {to}.
        {scope === 'data' ? null : ' It is printed once.'}
      </span>
      <Cli command={`freshline token create NAME ${scope === 'data' ? '--data' : `--scope ${scope}`}`} />
      <button type="button" onClick={() => {
        loginNeeded.value = true
      }}>Log in with a token</button>
    </div>
  )
}
