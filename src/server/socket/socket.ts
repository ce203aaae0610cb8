import { type Server as HttpServer, type IncomingMessage, ServerResponse } from 'node:http'
import { Server, type Socket } from 'socket.io'
import { z } from 'zod'
import type { Control } from '../../control.ts'
import { isEbbError, sentence } from '../../core/model/errors.ts'
import type { AgentRecord } from '../../core/ports/agents.ts'
import { type Access, bearerOf } from '../http/access.ts'
import { agentId, namespaceName } from '../http/schemas.ts'
import { Outbox } from './outbox.ts'
import { Subscription } from './subscription.ts'

const subscribeBody = z.object({ agentId, since: z.number().int().min(0).optional() })
const unsubscribeBody = z.object({ agentId })

/** Sends live events under their public names (docs/in-depth/server.md). A subscription belongs to its connection and ends with it. */
export class SocketInterface {
  readonly #io: Server
  readonly #control: Control
  /** Subscriptions by agent. */
  readonly #byAgent = new Map<string, Map<Socket, Subscription>>()
  readonly #outboxes = new Map<Socket, Outbox>()
  /** The number of agents deleted so far. */
  #deletions = 0

  constructor(http: HttpServer, control: Control, access: Access) {
    this.#control = control
    this.#io = new Server(http, { serveClient: false, maxHttpBufferSize: 65_536 })
    // Checks every request. The option `allowRequest` of Socket.IO does not see requests that name a session.
    this.#io.engine.use((request: IncomingMessage, response: ServerResponse, next: () => void) => {
      try {
        access.requireKnownCaller(request)
      } catch (error) {
        refuse(request, response, sentence(error))
        return
      }
      const sharing = access.sharing(request)
      for (const [name, value] of Object.entries(sharing ?? {})) response.setHeader(name, value)
      if (sharing && request.method === 'OPTIONS') response.writeHead(204).end()
      else next()
    })
    this.#io.use((socket, next) => {
      try {
        const { token, namespace } = socket.handshake.auth as { token?: unknown; namespace?: unknown }
        access.requireToken(typeof token === 'string' ? token : bearerOf(socket.handshake.headers.authorization))
        if (namespace !== undefined) socket.data.namespace = namespaceName.parse(namespace)
        next()
      } catch (error) {
        next(isEbbError(error) ? error : new Error('The namespace in "auth" is malformed; use letters, digits, and . _ - (at most 100).'))
      }
    })
    this.#io.on('connection', (socket) => this.#accept(socket))
    this.#listen()
  }

  #accept(socket: Socket): void {
    this.#outboxes.set(socket, new Outbox(socket))
    socket.emit('connected', { clientId: socket.id, timestamp: now() })
    socket.on('subscribe', (body: unknown) => void this.#subscribe(socket, body))
    socket.on('unsubscribe', (body: unknown) => this.#unsubscribe(socket, body))
    socket.on('disconnect', () => {
      this.#outboxes.delete(socket)
      for (const [id, subscriptions] of this.#byAgent) {
        subscriptions.get(socket)?.end()
        subscriptions.delete(socket)
        if (subscriptions.size === 0) this.#byAgent.delete(id)
      }
    })
  }

  async #subscribe(socket: Socket, body: unknown): Promise<void> {
    const parsed = subscribeBody.safeParse(body)
    if (!parsed.success) return emitError(socket, 'subscribe', '"subscribe" needs the UUID of an agent, as {agentId, since?}.', body)
    const { agentId: id, since } = parsed.data
    try {
      const { agent } = await this.#agent(id)
      const outbox = this.#outboxes.get(socket)
      if (!outbox) return
      const known = this.#byAgent.get(id) ?? new Map<Socket, Subscription>()
      const earlier = known.get(socket)
      const readPage = (after: number, limit: number) => this.#control.store.messages(id, after, limit)
      const { subscriptions } = this.#control
      const onDrop = (): void => this.#remove(id, socket)
      const from = since ?? agent.session.messageCount
      const subscription = new Subscription({ socket, outbox, agent, since: from, readPage, subscriptions, onDrop })
      this.#byAgent.set(id, known.set(socket, subscription))
      socket.emit('subscribed', { agentId: id, timestamp: now() })
      // `replay` reads from the store, so it includes messages that were saved during the lookup.
      subscription.replay()
      earlier?.endFor(subscription)
    } catch (error) {
      emitError(socket, 'subscribe', sentence(error), body)
    }
  }

  /**
   * Finds an agent that still exists. After any deletion during the lookup the lookup is repeated, because a subscription to a
   * deleted agent would never end.
   */
  async #agent(id: string): Promise<AgentRecord> {
    for (;;) {
      const before = this.#deletions
      const record = await this.#control.agents.get(id)
      if (this.#deletions === before) return record
    }
  }

  #unsubscribe(socket: Socket, body: unknown): void {
    const parsed = unsubscribeBody.safeParse(body)
    if (!parsed.success) {
      emitError(socket, 'unsubscribe', '"unsubscribe" needs the UUID of an agent, as {agentId}.', body)
      return
    }
    this.#remove(parsed.data.agentId, socket)
  }

  /** Ends a subscription. `unsubscribed` is the last event that its client gets. */
  #remove(id: string, socket: Socket): void {
    const subscriptions = this.#byAgent.get(id)
    subscriptions?.get(socket)?.end()
    subscriptions?.delete(socket)
    if (subscriptions?.size === 0) this.#byAgent.delete(id)
    socket.emit('unsubscribed', { agentId: id, timestamp: now() })
  }

  #listen(): void {
    const { events } = this.#control
    events.on('messages', ({ agentId: id, messages }) => {
      for (const subscription of this.#byAgent.get(id)?.values() ?? []) subscription.take(messages)
    })
    events.on('created', ({ agent }) => this.#broadcast('agent:created', { agent }, agent.namespace))
    events.on('status', ({ agentId: id, namespace, status }) => {
      this.#toSubscribers(id, 'agent:status', { agentId: id, status })
      this.#broadcast('agent:updated', { agentId: id, status }, namespace)
    })
    events.on('error', (event) => this.#toSubscribers(event.agentId, 'agent:error', event))
    events.on('complete', (event) => this.#toSubscribers(event.agentId, 'agent:complete', event))
    events.on('terminated', ({ namespace, ...event }) => this.#broadcast('agent:terminated', event, namespace))
    events.on('deleted', ({ agentId: id, namespace }) => {
      this.#deletions += 1
      this.#broadcast('agent:deleted', { agentId: id }, namespace)
      for (const socket of [...(this.#byAgent.get(id)?.keys() ?? [])]) this.#remove(id, socket)
    })
    events.on('silent', ({ namespace, ...event }) => this.#broadcast('agent:silent', event, namespace))
    events.on('closing', ({ namespace, ...event }) => this.#broadcast('cleanup:started', event, namespace))
    events.on('progress', ({ namespace, ...event }) => this.#broadcast('cleanup:progress', event, namespace))
    events.on('report', ({ namespace, ...event }) => this.#broadcast('cleanup:report', event, namespace))
    events.on('alert', ({ namespace, ...event }) => this.#broadcast('cleanup:alert', event, namespace))
  }

  /** Sends an event to the subscribers of an agent, after the messages that were saved before it. */
  #toSubscribers(id: string, name: string, event: object): void {
    const timestamp = now()
    for (const [socket, subscription] of this.#byAgent.get(id) ?? [])
      subscription.afterMessages(() => socket.emit(name, { ...event, timestamp }))
  }

  /** Sends an event to the clients of its namespace and to those without one. A subscriber that is behind gets it in order. */
  #broadcast(name: string, event: object, namespace: string | undefined): void {
    const timestamp = now()
    const about = (event as { readonly agentId?: string }).agentId
    for (const socket of this.#outboxes.keys()) {
      const own = socket.data.namespace as string | undefined
      if (own !== undefined && namespace !== undefined && own !== namespace) continue
      const emit = (): void => void socket.emit(name, { ...event, timestamp })
      const subscription = about === undefined ? undefined : this.#byAgent.get(about)?.get(socket)
      if (subscription) subscription.afterMessages(emit)
      else emit()
    }
  }

  async close(): Promise<void> {
    this.#io.disconnectSockets(true)
    await this.#io.close()
  }
}

/** Refuses a request. The handshake of a websocket has no response object, only a connection. */
function refuse(request: IncomingMessage, response: ServerResponse, message: string): void {
  const body = JSON.stringify({ statusCode: 403, code: 'forbidden', message })
  const headers = { 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': Buffer.byteLength(body), Connection: 'close' }
  if (response instanceof ServerResponse) {
    response.writeHead(403, headers).end(body)
    return
  }
  const { socket } = request
  socket.on('error', () => {}) // The client may be gone already.
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.write(`HTTP/1.1 403 Forbidden\r\n${head.join('')}\r\n${body}`)
  socket.destroySoon()
}

function emitError(socket: Socket, event: string, message: string, body: unknown): void {
  const about = (body as { readonly agentId?: unknown } | null | undefined)?.agentId
  socket.emit('error', { event, message, agentId: typeof about === 'string' ? about.slice(0, 100) : null })
}

function now(): string {
  return new Date().toISOString()
}
