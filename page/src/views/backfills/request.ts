import { quote } from '../../format'
import { names } from '../../parts/requests'

/** The form of a new backfill: the fields of the address, which are those of the command. */
export type Form = Readonly<Record<string, string>>

export const DEFAULT_CONCURRENCY = 4
export const DEFAULT_PRIORITY = 200

/** Return the body of a request from the fields of the form; what is not set is left out. */
export function bodyOf(form: Form): Record<string, unknown> {
  const number = (name: string): number | undefined => {
    const value = Number(form[name])
    return form[name] && Number.isInteger(value) ? value : undefined
  }
  const keys = names(form.keys ?? '')
  const body: Record<string, unknown> = {
    assetId: form.asset ?? '',
    // Keys and a range are two ways to select; the form has one of them at a time.
    ...(keys.length > 0 ? { keys } : { from: form.from || undefined, to: form.to || undefined }),
    only: form.only || undefined,
    upstream: flag(form.upstream),
    downstream: flag(form.downstream),
    batch: number('batch'),
    concurrency: number('concurrency'),
    order: form.order || undefined,
    notBefore: form.notBefore || undefined,
    duringQuietHours: flag(form.duringQuietHours),
    priority: number('priority'),
    partial: flag(form.partial),
  }
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined))
}

const flag = (value: string | undefined): true | undefined => (value === '1' ? true : undefined)

/** Return the command that asks for the same. */
export function commandOf(form: Form, end = ''): string {
  const body = bodyOf(form)
  const options: readonly (readonly [string, string])[] = [
    ['from', '--from'], ['to', '--to'], ['only', '--only'], ['batch', '--batch'], ['concurrency', '--concurrency'],
    ['order', '--order'], ['notBefore', '--not-before'], ['priority', '--priority'],
  ]
  const flags: readonly (readonly [string, string])[] = [
    ['upstream', '--upstream'], ['downstream', '--downstream'], ['duringQuietHours', '--during-quiet-hours'], ['partial', '--partial'],
  ]
  return [
    `freshline backfill ${form.asset ? quote(form.asset) : 'ASSET'}`,
    ...options.flatMap(([name, option]) => (body[name] === undefined ? [] : [`${option} ${quote(String(body[name]))}`])),
    ...(Array.isArray(body.keys) ? [`--keys ${quote(body.keys.join(','))}`] : []),
    ...flags.flatMap(([name, option]) => (body[name] === true ? [option] : [])),
    ...(end === '' ? [] : [end]),
  ].join(' ')
}
