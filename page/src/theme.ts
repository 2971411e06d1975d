import { effect, signal } from '@preact/signals'

/** The colours: as the system says, or as the reader chose here. */
export type Theme = 'system' | 'light' | 'dark'
const KEY = 'freshline-theme'

export const theme = signal<Theme>(stored())

/** Whether the page is dark now; canvases ask, because they do not get their colours from style sheets. */
export const dark = signal(false)

export function startTheme(): void {
  const wish = matchMedia('(prefers-color-scheme: dark)')
  const apply = (): void => {
    dark.value = theme.value === 'dark' || (theme.value === 'system' && wish.matches)
    document.documentElement.dataset.theme = dark.value ? 'dark' : 'light'
  }
  wish.addEventListener('change', apply)
  effect(() => {
    apply()
    try {
      localStorage.setItem(KEY, theme.value)
    } catch {
      // A browser that stores nothing: the choice lasts as long as the tab.
    }
  })
}

export function nextTheme(): void {
  theme.value = theme.value === 'system' ? (dark.value ? 'light' : 'dark') : theme.value === 'dark' ? 'light' : 'dark'
}

function stored(): Theme {
  try {
    const found = localStorage.getItem(KEY)
    return found === 'light' || found === 'dark' ? found : 'system'
  } catch {
    return 'system'
  }
}
