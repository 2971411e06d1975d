import { useSignal, type Signal } from '@preact/signals'
import { get, post, Problem, remove, segment } from '../api'
import { quote, visible } from '../format'
import { useLoad } from '../load'
import { Empty, Failed, Heading, Panel, Skeleton, State, Time } from '../parts/basics'
import { Cli } from '../parts/cli'
import { ask } from '../parts/confirm'
import { Needs } from '../parts/scope'
import { SecretOnce, type Secret } from '../parts/secret'
import { Table, type Column } from '../parts/table'
import { may, session } from '../session'
import type { Page, Token } from '../types'
import './lists.css'

/** Who may use the API, and what each may do. */
export default function TokensView() {
  return (
    <>
      {may('admin') ? <Tokens /> : (
        <>
          <Heading title="Tokens" />
          <Empty title="A token lets a person or a program use the API.">
            <p>It has a scope and an end. Only its digest is stored. The first one is made by a command.</p>
          </Empty>
          <Needs scope="admin" to="list, create and revoke tokens, also on this machine" />
        </>
      )}
      <Cli command="freshline token list" />
    </>
  )
}

function Tokens() {
  const secret = useSignal<Secret | null>(null)
  const loaded = useLoad('tokens', (stop) => get<Page<Token>>('tokens', {}, stop), { everyMs: 10_000 })
  const old = loaded.error instanceof Problem && loaded.error.status === 404
  return (
    <>
      <Heading title="Tokens" actions={old ? undefined
        : <button type="button" class="primary" onClick={() => askCreate(secret, loaded.reload)}>Create…</button>} />
      <SecretOnce from={secret} />
      {old ? <Empty title="This server has no list of tokens."><p>The commands list, create and revoke them.</p></Empty>
        : loaded.error !== null ? <Failed error={loaded.error} retry={loaded.reload} /> : null}
      {loaded.data === null ? (loaded.error === null ? <Skeleton lines={4} /> : null) : loaded.data.items.length === 0 ? (
        <Empty title="No tokens."><Cli command="freshline token create ci --scope operate" /></Empty>
      ) : (
        <Panel title="Tokens" note="newest first; the one of this page is marked">
          <Table items={loaded.data.items} columns={columns(loaded.reload)} id={(one) => one.id} label="Tokens, newest first"
            current={(one) => one.active && one.name === session.value?.name} />
        </Panel>
      )}
    </>
  )
}

/** Return the state of a token: `active` says that it works, the times say why not. */
export function tokenState(one: Token): { state: string; label: string } {
  if (one.revokedAt !== null) return { state: 'canceled', label: 'revoked' }
  return one.active ? { state: 'ok', label: 'valid' } : { state: 'retired', label: 'expired' }
}

const SCOPES: Readonly<Record<string, string>> = {
  read: 'reads everything but rows', operate: 'also reports, runs, cancels and pauses', admin: 'may do everything',
}

/** Return what a token allows. */
export const allowed = (one: Pick<Token, 'scope' | 'data'>): string =>
  (one.scope === 'read' && one.data ? 'reads everything, with rows' : `${SCOPES[one.scope] ?? ''}${one.data && one.scope !== 'admin' ? '; reads rows too' : ''}`)

const columns = (reload: () => void): readonly Column<Token>[] => [
  { title: 'Name', cell: (one) => <span class="name">{visible(one.name)}</span> },
  { title: 'State', cell: (one) => {
    const { state, label } = tokenState(one)
    return <State of={state} label={label} />
  } },
  { title: 'Scope', wide: true, cell: (one) => (
    <div>{one.scope}{one.data ? ' and data' : ''} <span class="quiet">{allowed(one)}</span></div>
  ) },
  { title: 'Used', cell: (one) => (one.usedAt === null ? <span class="quiet">never</span> : <Time at={one.usedAt} />) },
  { title: 'Created', extra: true, cell: (one) => <Time at={one.createdAt} /> },
  { title: 'Ends', cell: (one) => (one.revokedAt === null ? <Time at={one.expiresAt} /> : <span class="quiet">revoked <Time at={one.revokedAt} /></span>) },
  { title: 'Action', cell: (one) => (one.active
    ? <button type="button" class="small danger" aria-label={`Revoke ${one.name}`} onClick={() => askRevoke(one, reload)}>Revoke</button>
    : <span class="quiet">–</span>) },
]

function askCreate(secret: Signal<Secret | null>, reload: () => void): void {
  ask({
    title: 'Create a token',
    text: (values) => (
      <p>Whoever has it may use the API until it ends or is revoked: it {SCOPES[values.scope ?? ''] ?? ''}
        {values.data === 'yes' ? ', and reads rows of tables' : ''}. It is shown once.</p>
    ),
    verb: 'Create it',
    fields: [
      { name: 'name', label: 'Name', type: 'text', required: true, hint: 'Shown in the audit: who or what uses it.' },
      { name: 'scope', label: 'Scope', type: 'select', value: 'read', options: [['read', 'read'], ['operate', 'operate'], ['admin', 'admin']] },
      { name: 'data', label: 'It may read rows of tables', type: 'checkbox', hint: 'A token with the scope admin always may.' },
      { name: 'expires', label: 'Valid for', type: 'text', value: '90d', hint: 'A duration such as 12h, 30d or 8w.' },
    ],
    command: (values) => `freshline token create ${quote(values.name || 'NAME')} --scope ${values.scope ?? 'read'}${values.data === 'yes' ? ' --data' : ''} --expires ${quote(values.expires || '90d')}`,
    act: async (values) => {
      const made = await post<Token & { token: string }>('tokens', {
        name: values.name, scope: values.scope, data: values.data === 'yes', ...(values.expires ? { expires: values.expires } : {}),
      })
      secret.value = { what: `The token ${made.name}`, text: made.token }
      reload()
      return null
    },
  })
}

function askRevoke(one: Token, reload: () => void): void {
  const own = one.name === session.value?.name
  ask({
    title: `Revoke the token ${visible(one.name)}?`,
    text: () => (
      <>
        <p>From the next request on it is refused. Programs that use it fail. This cannot be undone.</p>
        {own ? <p class="bad">It is the token of this page: you will have to log in with another one.</p> : null}
      </>
    ),
    verb: 'Revoke it',
    dangerous: true,
    command: () => `freshline token revoke ${quote(one.name)}`,
    act: async () => {
      await remove(`tokens/${segment(one.name)}`)
      reload()
      return `The token ${visible(one.name)} is revoked.`
    },
  })
}
