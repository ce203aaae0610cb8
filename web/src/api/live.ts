import { useEffect, useRef, useSyncExternalStore } from 'react'
import { io, type Socket } from 'socket.io-client'
import { ask } from './client.ts'
import { noteDeleted } from './deleted.ts'
import type { Message } from './shapes.ts'
import { isTokenWanted, onToken, token, wantToken } from './token.ts'

/**
 * Live events of the server, over one connection for the whole page. The connection is restored automatically.
 *
 * After every connect, including the first, views fetch their lists again (`onConnect`): events since the last fetch were not
 * received. Each conversation continues after the last message number it has, so no message is missing or repeated.
 */

export type LiveState = 'connecting' | 'connected' | 'lost'

export interface Followed {
  readonly agentId: string
  /** Returns the number of the last message that the reader has. */
  readonly since: () => number
  readonly onMessage: (message: Message) => void
}

let socket: Socket | undefined
let state: LiveState = 'connecting'
const stateListeners = new Set<() => void>()
const connectListeners = new Set<() => void>()
const followed = new Set<Followed>()

function connection(): Socket {
  if (socket) return socket
  const made = io({
    auth: (send) => send({ token: token() }),
    // Long polling is not needed as a fallback: the server accepts WebSockets from every client it accepts.
    transports: ['websocket'],
    reconnectionDelay: 250,
    reconnectionDelayMax: 2_000,
  })
  socket = made
  made.on('connect', () => {
    setState('connected')
    for (const subscription of followed) subscribe(subscription)
    for (const listener of connectListeners) listener()
  })
  made.on('disconnect', (reason) => {
    setState('lost')
    // socket.io does not reconnect automatically when the server closed the connection, as on its shutdown.
    if (reason === 'io server disconnect') made.connect()
  })
  made.on('connect_error', (error) => {
    setState('lost')
    if (!made.active) {
      // The server refused the connection. It does so for a missing or wrong token.
      if (/token/i.test(error.message)) {
        setState('connecting')
        wantToken()
      } else setTimeout(() => made.connect(), 2_000)
    }
  })
  made.on('agent:message', ({ agentId, message }: { agentId: string; message: Message }) => {
    for (const subscription of followed) if (subscription.agentId === agentId) subscription.onMessage(message)
  })
  made.on('agent:deleted', ({ agentId }: { agentId: string }) => noteDeleted(agentId))
  watchHeartbeat(
    () => made.connected,
    (isSilent) => {
      if (made.connected) setState(isSilent ? 'lost' : 'connected')
    },
  )
  onToken(() => {
    if (!made.connected && !isTokenWanted()) made.connect()
  })
  return made
}

function setState(next: LiveState): void {
  if (state === next) return
  state = next
  for (const listener of stateListeners) listener()
}

function subscribe({ agentId, since }: Followed): void {
  connection().emit('subscribe', { agentId, since: since() })
}

/** Delivers the messages of one agent after the number `since()`, live and across reconnections. Returns a function that stops it. */
export function follow(subscription: Followed): () => void {
  followed.add(subscription)
  if (connection().connected) subscribe(subscription)
  return () => {
    followed.delete(subscription)
    const isShared = [...followed].some(({ agentId }) => agentId === subscription.agentId)
    if (!isShared && socket?.connected) socket.emit('unsubscribe', { agentId: subscription.agentId })
  }
}

/** Listens to the events of one name. Returns a function that stops it. */
export function onLive<T>(name: string, listener: (event: T) => void): () => void {
  connection().on(name, listener)
  return () => void connection().off(name, listener)
}

/** Calls the listener after every connect: earlier broadcasts were missed, so data must be fetched again. */
export function onConnect(listener: () => void): () => void {
  connection()
  connectListeners.add(listener)
  return () => void connectListeners.delete(listener)
}

export function useLiveState(): LiveState {
  return useSyncExternalStore(
    (notify) => {
      connection()
      stateListeners.add(notify)
      return () => void stateListeners.delete(notify)
    },
    () => state,
  )
}

/** Listens to the events of one name while mounted. The listener may change with every render without a new registration. */
export function useLive<T>(name: string, listener: (event: T) => void): void {
  const current = useRef(listener)
  useEffect(() => {
    current.current = listener
  })
  useEffect(() => onLive<T>(name, (event) => current.current(event)), [name])
}

/**
 * A server that hangs, or was stopped by a signal, keeps its connections open and sends nothing. A periodic request detects this
 * while the page is visible. The server counts as silent from a missed deadline until its next answer.
 */
const beatMs = 3_000
const patienceMs = 5_000

function watchHeartbeat(isWanted: () => boolean, notify: (isSilent: boolean) => void): void {
  const beat = async (): Promise<void> => {
    if (isWanted() && document.visibilityState === 'visible') {
      const isSilent = await ask('GET', '/health', { timeoutMs: patienceMs }).then(
        () => false,
        // An error status is an answer as well; status 0 means that none came.
        (error: unknown) => (error as { status?: number }).status === 0,
      )
      notify(isSilent)
    }
    setTimeout(() => void beat(), beatMs)
  }
  setTimeout(() => void beat(), beatMs)
}
