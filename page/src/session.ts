import { signal } from '@preact/signals'
import { get, loginNeeded, post, Problem, remove } from './api'
import type { Session } from './types'

/** Who reads the page and what they may do; null until the server said it. */
export const session = signal<Session | null>(null)

/** Ask the server who we are. Raise a problem if it cannot be reached. */
export async function readSession(): Promise<void> {
  try {
    session.value = await get<Session>('session')
    loginNeeded.value = false
  } catch (error) {
    if (error instanceof Problem && error.status === 401) {
      loginNeeded.value = true
      return
    }
    throw error
  }
}

/** Exchange a token for the cookie of this page. The token is not kept in the page. */
export async function login(token: string): Promise<void> {
  session.value = await post<Session>('session', { token })
  loginNeeded.value = false
}

export async function logout(): Promise<void> {
  await remove('session')
  // Everything that was read with the token goes away with the document.
  location.reload()
}

/** Whether the reader has a scope. `admin` includes all, `operate` includes `read`. */
export function may(scope: 'read' | 'operate' | 'admin' | 'data'): boolean {
  const who = session.value
  if (who === null) return false
  return who.scope === 'admin' || who.scopes.includes(scope) || who.scope === scope
}
