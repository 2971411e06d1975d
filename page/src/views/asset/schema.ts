import type { Column, Json } from '../../types'

/** The difference of the columns of two versions. */
export interface SchemaDifference {
  readonly added: readonly Column[]
  readonly removed: readonly Column[]
  readonly retyped: readonly { readonly name: string; readonly from: string; readonly to: string }[]
  /** Whether the columns that both have are in another order. */
  readonly reordered: boolean
}

/** Compare columns by name: the same name with another type, or with another nullability, has changed its type. */
export function compareSchemas(before: readonly Column[], after: readonly Column[]): SchemaDifference {
  const [old, current] = [byName(before), byName(after)]
  const both = after.filter((one) => old.has(one.name))
  return {
    added: after.filter((one) => !old.has(one.name)),
    removed: before.filter((one) => !current.has(one.name)),
    retyped: both.flatMap((one) => {
      const [from, to] = [columnType(old.get(one.name)!), columnType(one)]
      return from === to ? [] : [{ name: one.name, from, to }]
    }),
    reordered: both.map((one) => one.name).join('\n') !==
      before.filter((one) => current.has(one.name)).map((one) => one.name).join('\n'),
  }
}

const byName = (columns: readonly Column[]): Map<string, Column> => new Map(columns.map((one) => [one.name, one]))

/** Return the type of a column as a text, in the form of SQL: `array<string> not null`. */
export function columnType(column: Column): string {
  return `${typeText(column.type)}${column.nullable === false ? ' not null' : ''}`
}

/** Return a type of Spark, which is a name or the JSON form of a nested type. */
export function typeText(type: Json): string {
  if (typeof type === 'string') return type
  if (typeof type !== 'object' || type === null || Array.isArray(type)) return JSON.stringify(type)
  switch (type.type) {
    case 'array':
      return `array<${typeText(type.elementType ?? null)}>`
    case 'map':
      return `map<${typeText(type.keyType ?? null)}, ${typeText(type.valueType ?? null)}>`
    case 'struct':
      return `struct<${(Array.isArray(type.fields) ? type.fields : []).map(fieldText).join(', ')}>`
    default:
      return JSON.stringify(type)
  }
}

function fieldText(field: Json): string {
  if (typeof field !== 'object' || field === null || Array.isArray(field)) return JSON.stringify(field)
  return `${String(field.name)}: ${typeText(field.type ?? null)}`
}
