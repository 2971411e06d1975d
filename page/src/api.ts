import { signal } from '@preact/signals'

/** An error that the API explained: RFC 9457 problem details, or a lost connection. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly title: string,
    readonly detail: string,
    readonly errors: readonly FieldError[] = [],
  ) {
    super(detail)
    this.name = 'Problem'
  }
}

export interface FieldError {
  readonly at?: string
  readonly message?: string
}

export type Parameters = Record<string, string | number | boolean | null | undefined | readonly string[]>

/** The version that the server runs, as its responses say; null before the first one. */
export const serverVersion = signal<string | null>(null)

/** Whether the server asked for a token: the page shows the login then. */
export const loginNeeded = signal(false)

/** Return the address of a resource of the API, relative to the document, so that a path prefix needs no setting. */
export function address(path: string, parameters: Parameters = {}): string {
  const url = new URL(`./api/v1/${path.replace(/^\//, '')}`, document.baseURI)
  for (const [name, value] of Object.entries(parameters)) {
    if (Array.isArray(value)) for (const one of value) url.searchParams.append(name, one)
    else if (value !== null && value !== undefined && value !== '' && value !== false) {
      url.searchParams.set(name, String(value))
    }
  }
  return url.href
}

/** Return one segment of a path: names may contain any character. */
export const segment = encodeURIComponent

export function get<T>(path: string, parameters: Parameters = {}, stop?: AbortSignal): Promise<T> {
  return request<T>('GET', path, parameters, undefined, stop)
}

export function post<T>(path: string, body: unknown = {}): Promise<T> {
  return request<T>('POST', path, {}, body)
}

export function remove(path: string): Promise<void> {
  return request<void>('DELETE', path, {}, {})
}

async function request<T>(
  method: string, path: string, parameters: Parameters, body?: unknown, stop?: AbortSignal,
): Promise<T> {
  const headers: Record<string, string> = { Accept: 'application/json' }
  if (method !== 'GET') {
    // No form of another site can send this header, so a change with our cookie comes from this page.
    headers['Freshline-Request'] = 'page'
    headers['Content-Type'] = 'application/json'
  }
  const wanted: RequestInit = { method, headers, credentials: 'same-origin' }
  if (body !== undefined) wanted.body = JSON.stringify(body)
  if (stop !== undefined) wanted.signal = stop
  let response: Response
  try {
    response = await fetch(address(path, parameters), wanted)
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error
    throw new Problem(0, 'unreachable', 'No answer', 'The server cannot be reached. The page tries again by itself.')
  }
  note(response)
  if (!response.ok) throw await problem(response, path)
  if (response.status === 204) return undefined as T
  return (await response.json()) as T
}

/** Take what every response says about the server. */
export function note(response: Response): void {
  const version = response.headers.get('Freshline-Version')
  if (version !== null && version !== serverVersion.value) serverVersion.value = version
}

/** Return the problem that a response describes, also if its body is of a proxy. */
export async function problem(response: Response, path: string): Promise<Problem> {
  // A wrong token in the login form is an answer to the form, not a reason to show the form.
  if (response.status === 401 && path !== 'session') loginNeeded.value = true
  let body: Record<string, unknown> = {}
  try {
    const read: unknown = await response.json()
    if (typeof read === 'object' && read !== null) body = read as Record<string, unknown>
  } catch {
    // The body of a proxy or an interrupted answer: the status is all there is.
  }
  const text = (name: string, otherwise: string): string => {
    const value = body[name]
    return typeof value === 'string' && value !== '' ? value : otherwise
  }
  return new Problem(
    response.status,
    text('code', 'http'),
    text('title', 'The request failed'),
    text('detail', `The server answered with status ${response.status}.`),
    Array.isArray(body.errors) ? (body.errors as FieldError[]) : [],
  )
}

/** Return an error as sentences for a reader. */
export function explain(error: unknown): string {
  if (!(error instanceof Problem)) return error instanceof Error ? error.message : String(error)
  const fields = error.errors.flatMap((one) => {
    const where = one.at ?? ''
    const what = one.message ?? ''
    return what === '' ? [] : [where === '' ? what : `${where}: ${what}`]
  })
  return fields.length > 0 ? `${error.detail} ${fields.join('; ')}` : error.detail
}
