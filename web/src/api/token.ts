/** The server's token, where it wants one: in this tab only, and gone with it. */

const key = 'ebb.token'
const listeners = new Set<() => void>()
let isWanted = false

export function token(): string | undefined {
  return sessionStorage.getItem(key) ?? undefined
}

export function setToken(given: string): void {
  sessionStorage.setItem(key, given)
  isWanted = false
  tell()
}

/** The server has refused us for want of one. */
export function wantToken(): void {
  if (isWanted) return
  isWanted = true
  tell()
}

export function isTokenWanted(): boolean {
  return isWanted
}

export function onToken(listener: () => void): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

function tell(): void {
  for (const listener of listeners) listener()
}
