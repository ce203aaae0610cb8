import { useEffect, useRef, useSyncExternalStore } from 'react'
import { io, type Socket } from 'socket.io-client'
import { noteDeleted } from './deleted.ts'
import { watchHeartbeat } from './heartbeat.ts'
import type { Message } from './shapes.ts'
import { isTokenWanted, onToken, token, wantToken } from './token.ts'

/**
 * The server's events, over one connection for the whole page. It comes back by itself. Whenever it is there, for the
 * first time too, whoever shows a list fetches it again (`onConnect`), because nobody heard what happened since the last fetch; and every conversation goes on after the last number it has, so that nothing is missing and nothing
 * comes twice.
 */

export type LiveState = 'connecting' | 'connected' | 'lost'

export interface Followed {
  readonly agentId: string
  /** The last number that the reader has. */
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
    auth: (give) => give({ token: token() }),
    // Long polling would be a second way to fail: the server speaks both to the same clients.
    transports: ['websocket'],
    reconnectionDelay: 250,
    reconnectionDelayMax: 2_000,
  })
  socket = made
  made.on('connect', () => {
    setState('connected')
    for (const one of followed) subscribe(one)
    for (const listener of connectListeners) listener()
  })
  made.on('disconnect', (reason) => {
    setState('lost')
    // The server said goodbye, as when it is stopped; then the client does not come back by itself.
    if (reason === 'io server disconnect') made.connect()
  })
  made.on('connect_error', (error) => {
    setState('lost')
    if (!made.active) {
      // Refused, not unreachable: by the question of the token.
      if (/token/i.test(error.message)) {
        setState('connecting')
        wantToken()
      } else setTimeout(() => made.connect(), 2_000)
    }
  })
  made.on('agent:message', ({ agentId, message }: { agentId: string; message: Message }) => {
    for (const one of followed) if (one.agentId === agentId) one.onMessage(message)
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

/** The messages of one agent after the number that `since` says, live and across reconnections; the answer ends it. */
export function follow(one: Followed): () => void {
  followed.add(one)
  if (connection().connected) subscribe(one)
  return () => {
    followed.delete(one)
    const isShared = [...followed].some(({ agentId }) => agentId === one.agentId)
    if (!isShared && socket?.connected) socket.emit('unsubscribe', { agentId: one.agentId })
  }
}

/** Every event of one name; the answer ends it. */
export function onLive<T>(name: string, listener: (event: T) => void): () => void {
  connection().on(name, listener)
  return () => void connection().off(name, listener)
}

/** What was broadcast until now was not heard: fetch again. */
export function onConnect(listener: () => void): () => void {
  connection()
  connectListeners.add(listener)
  return () => void connectListeners.delete(listener)
}

export function useLiveState(): LiveState {
  return useSyncExternalStore(
    (tell) => {
      connection()
      stateListeners.add(tell)
      return () => void stateListeners.delete(tell)
    },
    () => state,
  )
}

/** The listener may change with every render; the registration does not. */
export function useLive<T>(name: string, listener: (event: T) => void): void {
  const current = useRef(listener)
  useEffect(() => {
    current.current = listener
  })
  useEffect(() => onLive<T>(name, (event) => current.current(event)), [name])
}
