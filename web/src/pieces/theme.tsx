import { useState } from 'react'

/** As the system has it, unless somebody said otherwise here. */

type Theme = 'system' | 'light' | 'dark'

const key = 'ebb.theme'
const next: Readonly<Record<Theme, Theme>> = { system: 'light', light: 'dark', dark: 'system' }
const signs: Readonly<Record<Theme, string>> = { system: '◐', light: '○', dark: '●' }

function chosen(): Theme {
  const held = localStorage.getItem(key)
  return held === 'light' || held === 'dark' ? held : 'system'
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
    <button type="button" className="button button--quiet theme" onClick={change} title={`Theme: ${theme}. Click for ${next[theme]}.`}>
      <span aria-hidden="true">{signs[theme]}</span>
      <span className="theme__word">
        <span className="hidden">Theme: </span>
        {theme}
      </span>
    </button>
  )
}
