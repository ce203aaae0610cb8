import { type ComponentType, useEffect, useSyncExternalStore } from 'react'
import { AgentView } from './agent/agent.tsx'
import { AgentsView } from './agents/agents.tsx'
import { LabelsProvider } from './api/labels.tsx'
import { useLiveState } from './api/live.ts'
import { isTokenWanted, onToken } from './api/token.ts'
import { CleanupView } from './cleanup/cleanup.tsx'
import { CloseView } from './cleanup/close.tsx'
import { Empty } from './pieces/notes.tsx'
import { ThemeToggle } from './pieces/theme.tsx'
import { Toasts } from './pieces/toasts.tsx'
import { ViewHead } from './pieces/view-head.tsx'
import { hrefOf, usePlace } from './routing.ts'
import { SystemView } from './system/system.tsx'
import { TokenPrompt } from './token-prompt.tsx'

/*
 * The page frame: the header with the navigation, and the view that the address selects.
 *
 * To add a view, create a folder in web/src with a component that starts with <ViewHead title=…>, and add a line to `views` below.
 * `List` is shown at `#/name`, `One` at `#/name/ID`.
 *
 * A view reads the server through api/. `useLoaded(key, load, {everyMs, on})` fetches data; it fetches again after a reconnection, on
 * the named events, and periodically while the page is visible. `useLive(name, listener)` receives single events. `call()` performs
 * actions; `sentenceOf` turns its errors into sentences.
 *
 * The names of placements and of kinds of resources come from the server: `useLabels()`. No view names one itself.
 *
 * Views are built from pieces/: Badge, DataTable, Dialog, Confirm, Tree, Empty, Problem, Progress, Age, Lasting, useToast, and
 * format.ts. Text that an agent wrote must go through `plainText` or `oneLine`. A view's stylesheet is styles/NAME.css, imported by
 * main.tsx. Colours come from the variables of base.css.
 */

interface View {
  readonly name: string
  readonly label: string
  readonly List: ComponentType
  readonly One?: ComponentType<{ readonly id: string }>
}

const views: readonly View[] = [
  { name: 'agents', label: 'Agents', List: AgentsView, One: AgentView },
  { name: 'cleanup', label: 'Cleanup', List: CleanupView, One: CloseView },
  { name: 'system', label: 'System', List: SystemView },
]

export function App() {
  const location = usePlace()
  const needsToken = useSyncExternalStore(onToken, isTokenWanted)
  useEffect(() => {
    if (location.view === '') window.location.replace(hrefOf('agents'))
  }, [location.view])
  const view = views.find(({ name }) => name === location.view)
  return (
    <Toasts>
      <button type="button" className="skip" onClick={() => document.getElementById('content')?.focus()}>
        Skip to content
      </button>
      <header className="bar">
        <a className="bar__name" href={hrefOf('agents')} aria-label="Ebb: go to the agents">
          <Mark />
          <span>Ebb</span>
        </a>
        <nav className="bar__nav" aria-label="Views">
          {views.map(({ name, label }) => (
            <a key={name} href={hrefOf(name)} aria-current={name === location.view ? 'page' : undefined}>
              {label}
            </a>
          ))}
        </nav>
        {needsToken ? <span className="connection" /> : <Connection />}
        <ThemeToggle />
      </header>
      <main id="content" tabIndex={-1}>
        {needsToken ? (
          <TokenPrompt />
        ) : view ? (
          <LabelsProvider>
            <CurrentView view={view} id={location.id} />
          </LabelsProvider>
        ) : (
          location.view !== '' && <NotFound />
        )}
      </main>
      <footer className="foot">Ebb verifies that nothing an agent created outlives it.</footer>
    </Toasts>
  )
}

/** The key makes React start with fresh state when the id changes. */
function CurrentView({ view: { List, One }, id }: { readonly view: View; readonly id: string | undefined }) {
  return id !== undefined && One ? <One key={id} id={id} /> : <List />
}

function Connection() {
  const state = useLiveState()
  if (state === 'lost')
    return (
      <div className="lost" role="alert">
        Not connected to the server. Reconnecting; the data on this page may be outdated.
      </div>
    )
  return (
    <span className={`connection connection--${state}`}>
      <span className="connection__dot" aria-hidden="true" />
      {state === 'connected' ? 'live' : 'connecting'}
    </span>
  )
}

function NotFound() {
  return (
    <>
      <ViewHead title="Page not found" />
      <Empty title="This page does not exist.">
        <p>
          <a href={hrefOf('agents')}>Go to the agents</a>
        </p>
      </Empty>
    </>
  )
}

/** Ebb's logo: two waves. */
function Mark({ size = 26 }: { readonly size?: number }) {
  return (
    <svg className="mark" width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="8" className="mark__ground" />
      <path d="M4 13c4-5 8-5 12 0s8 5 12 0" className="mark__wave" />
      <path d="M8 22c2.7-3 5.3-3 8 0s5.300 3 8 0" className="mark__foam" />
    </svg>
  )
}
