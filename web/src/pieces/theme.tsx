import { useState } from 'react'

/** The colour theme: the one of the operating system, unless the user chose another one here. */

type Theme = 'system' | 'light' | 'dark'

const key = 'ebb.theme'
const next: Readonly<Record<Theme, Theme>> = { system: 'light', light: 'dark', dark: 'system' }
const icons: Readonly<Record<Theme, string>> = { system: '◐', light: '○', dark: '●' }

function chosen(): Theme {
  const stored = localStorage.getItem(key)
  return stored === 'light' || stored === 'dark' ? stored : 'system'
}

export function applyTheme(): void {
  const theme = chosen()
  if (theme === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
}

export function ThemeToggle() {
  const [theme, setTheme] = useState(chosen)
  const change = (): void => {
    localStorage.setItem(key, next[theme])
    applyTheme()
    setTheme(next[theme])
  }
  return (
    <button type="button" className="button button--quiet theme" onClick={change} title={`Theme: ${theme}. Click to use ${next[theme]}.`}>
      <span aria-hidden="true">{icons[theme]}</span>
      <span className="theme__name">
        <span className="hidden">Theme: </span>
        {theme}
      </span>
    </button>
  )
}
