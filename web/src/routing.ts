import { useSyncExternalStore } from 'react'

/** The URL hash selects the page: `#/agents`, `#/agents/ID`, `#/cleanup/ID`. The query after a `?` belongs to the view. */

export interface Place {
  /** The first part of the URL hash, such as `agents`. */
  readonly view: string
  /** The second part of the URL hash, if present. */
  readonly id: string | undefined
  readonly query: URLSearchParams
}

/** Former view names, so that old bookmarks still work. */
const renamedViews: Readonly<Record<string, string>> = { world: 'system' }

let hasNavigated = false
/** The number of navigations to another view or another id. */
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
  const currentName = Object.hasOwn(renamedViews, view) ? (renamedViews[view] ?? view) : view
  return { view: currentName, id: id === undefined || id === '' ? undefined : decode(id), query: new URLSearchParams(query) }
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

function listen(notify: () => void): () => void {
  listeners.add(notify)
  window.addEventListener('hashchange', notify)
  return () => {
    listeners.delete(notify)
    window.removeEventListener('hashchange', notify)
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

/** The place in the dashboard that was shown before the current place. */
export function placeBefore(): Place {
  return before
}

export function hrefOf(view: string, id?: string): string {
  return id === undefined ? `#/${view}` : `#/${view}/${encodeURIComponent(id)}`
}

/** The link back to the list of a view. It keeps the list's query if the user came from that list. */
export function hrefOfList(view: string): string {
  const cameFromList = before.view === view && before.id === undefined
  return `${hrefOf(view)}${cameFromList && before.query.size > 0 ? `?${before.query}` : ''}`
}

/** Changes the query of the current address without adding an entry to the browser history. */
export function replaceQuery(query: string): void {
  const [path = ''] = window.location.hash.split('?', 1)
  window.history.replaceState(null, '', `${path}${query}`)
  const { hash } = window.location
  known = { hash, place: placeOf(hash) }
  // `replaceState` fires no `hashchange` event.
  for (const notify of listeners) notify()
}

export function go(view: string, id?: string): void {
  window.location.hash = hrefOf(view, id)
}

/**
 * Returns a function that reports whether the user has navigated to another place since this call, even if they have returned. A change of
 * only the query does not count.
 */
export function departure(): () => boolean {
  const movesBefore = moves
  const from = current()
  // `hashchange` fires shortly after the hash has changed, so the current hash is compared as well.
  return () => moves !== movesBefore || !isSame(current(), from)
}

function isSame(a: Place, b: Place): boolean {
  return a.view === b.view && a.id === b.id
}

/** Whether the user has navigated within the page. Until then, the focus is the one that the browser set at the start. */
export function cameByNavigation(): boolean {
  return hasNavigated
}
