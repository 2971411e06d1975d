/** Keys of partitions by time: their order, so that the keys between two others have names and places. */
export type Grain = 'minute' | 'hour' | 'day' | 'week' | 'month' | 'year'

const FORMS: readonly (readonly [Grain, RegExp])[] = [
  ['minute', /^\d{4}-\d\d-\d\dT\d\d:\d\d$/],
  ['hour', /^\d{4}-\d\d-\d\dT\d\d$/],
  ['day', /^\d{4}-\d\d-\d\d$/],
  ['week', /^\d{4}-W\d\d$/],
  ['month', /^\d{4}-\d\d$/],
  ['year', /^\d{4}$/],
]
const DAY_MS = 86_400_000
const SIZE_MS = { minute: 60_000, hour: 3_600_000, day: DAY_MS }

/** Return the grain that a key looks like; null if it is not a time. */
export function grainOf(key: string): Grain | null {
  return FORMS.find(([, form]) => form.test(key))?.[0] ?? null
}

/** Return the place of a key on the axis of its grain: consecutive keys have consecutive numbers. */
export function ordinal(key: string, grain: Grain): number {
  const year = Number(key.slice(0, 4))
  switch (grain) {
    case 'year':
      return year
    case 'month':
      return year * 12 + Number(key.slice(5, 7)) - 1
    case 'week':
      return firstWeek(year) + Number(key.slice(6, 8)) - 1
    default: {
      const [date, clock] = [day(year, Number(key.slice(5, 7)), Number(key.slice(8, 10))), key.slice(11)]
      const minutes = clock === '' ? 0 : Number(clock.slice(0, 2)) * 60 + Number(clock.slice(3, 5))
      return (date + minutes * 60_000) / SIZE_MS[grain]
    }
  }
}

/** Return the key at a place: the reverse of `ordinal`. */
export function keyAt(at: number, grain: Grain): string {
  switch (grain) {
    case 'year':
      return digits(at, 4)
    case 'month':
      return `${digits(Math.floor(at / 12), 4)}-${digits((at % 12) + 1, 2)}`
    case 'week': {
      // The year of an ISO week is that of its Thursday.
      const year = new Date((at * 7) * DAY_MS).getUTCFullYear()
      return `${digits(year, 4)}-W${digits(at - firstWeek(year) + 1, 2)}`
    }
    default: {
      const text = new Date(at * SIZE_MS[grain]).toISOString()
      return text.slice(0, { minute: 16, hour: 13, day: 10 }[grain])
    }
  }
}

/** Return the time at which the window of a place begins, in UTC. */
export function startOf(at: number, grain: Grain): number {
  switch (grain) {
    case 'year':
      return day(at, 1, 1)
    case 'month':
      return day(Math.floor(at / 12), (at % 12) + 1, 1)
    case 'week':
      return (at * 7 - 3) * DAY_MS
    default:
      return at * SIZE_MS[grain]
  }
}

/** Return the place of the window that holds a time in UTC. */
export function placeAt(time: number, grain: Grain): number {
  const date = new Date(time)
  switch (grain) {
    case 'year':
      return date.getUTCFullYear()
    case 'month':
      return date.getUTCFullYear() * 12 + date.getUTCMonth()
    case 'week':
      return Math.floor((time / DAY_MS + 3) / 7)
    default:
      return Math.floor(time / SIZE_MS[grain])
  }
}

/** Weeks are counted from the one of 1970-01-01, which is a Thursday: week `n` has the Thursday `7 n` days later. */
function firstWeek(year: number): number {
  return Math.floor((day(year, 1, 4) / DAY_MS + 3) / 7)
}

function day(year: number, month: number, date: number): number {
  const time = new Date(0)
  // Date.UTC takes the years 0 to 99 for those of the twentieth century.
  time.setUTCFullYear(year, month - 1, date)
  return time.getTime()
}

const digits = (n: number, width: number): string => String(n).padStart(width, '0')
