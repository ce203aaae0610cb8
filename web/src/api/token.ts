/** The server's token, if it requires one. Stored for this browser tab only (sessionStorage). */

const key = 'ebb.token'
const listeners = new Set<() => void>()
let isWanted = false

export function token(): string | undefined {
  return sessionStorage.getItem(key) ?? undefined
}

export function setToken(newToken: string): void {
  sessionStorage.setItem(key, newToken)
  isWanted = false
  notify()
}

/** Records that the server refused a request for a missing or wrong token. */
export function wantToken(): void {
  if (isWanted) return
  isWanted = true
  notify()
}

export function isTokenWanted(): boolean {
  return isWanted
}

export function onToken(listener: () => void): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

function notify(): void {
  for (const listener of listeners) listener()
}
