import { type ComponentType, useEffect, useSyncExternalStore } from 'react'
import { AgentView } from './agent/agent.tsx'
import { AgentsView } from './agents/agents.tsx'
import { useLiveState } from './api/live.ts'
import { isTokenWanted, onToken } from './api/token.ts'
import { CleanupView } from './cleanup/cleanup.tsx'
import { CloseView } from './cleanup/close.tsx'
import { Mark } from './pieces/mark.tsx'
import { Empty } from './pieces/notes.tsx'
import { ThemeToggle } from './pieces/theme.tsx'
import { Toasts } from './pieces/toasts.tsx'
import { ViewHead } from './pieces/view-head.tsx'
import { hrefOf, usePlace } from './routing.ts'
import { TokenPrompt } from './token-prompt.tsx'
import { WorldView } from './world/world.tsx'

/*
 * The page: who we are, where one can go, and the view that is asked for.
 *
 * A view is a folder in web/src with a component that begins with <ViewHead title=…>, and a line in `views` below: `List` for
 * `#/name`, `One` for `#/name/ID`. It reads the server through api/: `useLoaded(key, load, {everyMs, on})` for what is fetched (it
 * fetches again after a reconnection, on the named events, and by the clock while the page is seen), `useLive(name, listener)` for
 * single events, `call()` for actions, whose errors are sentences (`sentenceOf`). It is made of pieces/: Badge, DataTable, Dialog,
 * Confirm, Tree, Empty, Problem, Progress, Age, Lasting, useToast, and format.ts. Text of agents goes through `plainText` or
 * `oneLine`. A stylesheet of its own is styles/NAME.css, imported by main.tsx; colours come from the variables of base.css.
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
  { name: 'world', label: 'World', List: WorldView },
]

export function App() {
  const place = usePlace()
  const needsToken = useSyncExternalStore(onToken, isTokenWanted)
  useEffect(() => {
    if (place.view === '') window.location.replace(hrefOf('agents'))
  }, [place.view])
  const view = views.find(({ name }) => name === place.view)
  return (
    <Toasts>
      <button type="button" className="skip" onClick={() => document.getElementById('content')?.focus()}>
        Skip to the content
      </button>
      <header className="bar">
        <a className="bar__name" href={hrefOf('agents')} aria-label="Ebb, to the agents">
          <Mark />
          <span>Ebb</span>
        </a>
        <nav className="bar__nav" aria-label="Views">
          {views.map(({ name, label }) => (
            <a key={name} href={hrefOf(name)} aria-current={name === place.view ? 'page' : undefined}>
              {label}
            </a>
          ))}
        </nav>
        {needsToken ? <span className="connection" /> : <Connection />}
        <ThemeToggle />
      </header>
      <main id="content" tabIndex={-1}>
        {needsToken ? <TokenPrompt /> : view ? <Shown view={view} id={place.id} /> : place.view !== '' && <Nowhere />}
      </main>
      <footer className="foot">The tide goes out, and the beach is clean.</footer>
    </Toasts>
  )
}

/** Another id is another view: nothing of the one before stays in it. */
function Shown({ view: { List, One }, id }: { readonly view: View; readonly id: string | undefined }) {
  return id !== undefined && One ? <One key={id} id={id} /> : <List />
}

function Connection() {
  const state = useLiveState()
  if (state === 'lost')
    return (
      <div className="lost" role="alert">
        Not connected; trying again. What is shown may be old.
      </div>
    )
  return (
    <span className={`connection connection--${state}`}>
      <span className="connection__dot" aria-hidden="true" />
      {state === 'connected' ? 'live' : 'connecting'}
    </span>
  )
}

function Nowhere() {
  return (
    <>
      <ViewHead title="Nothing is here" />
      <Empty title="There is no such page.">
        <p>
          <a href={hrefOf('agents')}>To the agents</a>
        </p>
      </Empty>
    </>
  )
}
