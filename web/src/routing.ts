import { useSyncExternalStore } from 'react'

/** The address is the state: `#/agents`, `#/agents/ID`, `#/cleanup/ID`. What is after a `?` belongs to the view. */

export interface Place {
  /** The first part, such as `agents`. */
  readonly view: string
  /** The second, where there is one. */
  readonly id: string | undefined
  readonly query: URLSearchParams
}

let hasNavigated = false
/** How often another view, or another thing in it, was gone to. */
let moves = 0
let known = { hash: '\0', place: placeOf('') }
let before = known.place

window.addEventListener('hashchange', ({ oldURL, newURL }) => {
  hasNavigated = true
  if (!isSame(placeOf(new URL(oldURL).hash), placeOf(new URL(newURL).hash))) moves += 1
})

export function placeOf(hash: string): Place {
  const [path = '', query = ''] = hash.replace(/^#?\/?/, '').split('?', 2)
  const [view = '', id] = path.split('/')
  return { view, id: id === undefined || id === '' ? undefined : decode(id), query: new URLSearchParams(query) }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

export function usePlace(): Place {
  return useSyncExternalStore(listen, current)
}

const listeners = new Set<() => void>()

function listen(tell: () => void): () => void {
  listeners.add(tell)
  window.addEventListener('hashchange', tell)
  return () => {
    listeners.delete(tell)
    window.removeEventListener('hashchange', tell)
  }
}

function current(): Place {
  const { hash } = window.location
  if (known.hash !== hash) {
    before = known.place
    known = { hash, place: placeOf(hash) }
  }
  return known.place
}

/** Where one was until now. */
export function placeBefore(): Place {
  return before
}

export function hrefOf(view: string, id?: string): string {
  return id === undefined ? `#/${view}` : `#/${view}/${encodeURIComponent(id)}`
}

/** The list of a view, as it was when one came from there. */
export function hrefOfList(view: string): string {
  const isFrom = before.view === view && before.id === undefined
  return `${hrefOf(view)}${isFrom && before.query.size > 0 ? `?${before.query}` : ''}`
}

/** The same place with another query: no step on the way back. */
export function replaceQuery(query: string): void {
  const [path = ''] = window.location.hash.split('?', 1)
  window.history.replaceState(null, '', `${path}${query}`)
  const { hash } = window.location
  known = { hash, place: placeOf(hash) }
  // The browser says nothing of it.
  for (const tell of listeners) tell()
}

export function go(view: string, id?: string): void {
  window.location.hash = hrefOf(view, id)
}

/** Asked later, tells whether one has gone elsewhere since, also if one is back; another query is the same place. */
export function departure(): () => boolean {
  const then = moves
  const from = current()
  // The browser tells of a move a moment after it was made.
  return () => moves !== then || !isSame(current(), from)
}

function isSame(one: Place, other: Place): boolean {
  return one.view === other.view && one.id === other.id
}

/** False for the page as it was opened: there the focus is where the browser puts it. */
export function cameByNavigation(): boolean {
  return hasNavigated
}
