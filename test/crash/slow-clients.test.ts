import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { io, type Socket } from 'socket.io-client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { statusAtEnd } from '../support/conversation.ts'
import { temporaryHome } from '../support/home.ts'
import { type Json, startServer, type TestServer } from '../support/server.ts'
import { useServer } from '../support/shared-server.ts'

/** Clients that do not read what they requested. They cost the server little memory, and do not slow other clients. */

// The conversation has few and long lines: the server disconnects a client that does not read for 45 s, and by then the other client has
// everything.
const lines = 10_000
const padding = 'x'.repeat(8_000)
const mostBytes = 200_000_000

/** The growth of the server's peak memory. The kernel keeps the peak and resets it on request (proc(5), clear_refs). */
class Peak {
  readonly #pid: number
  readonly #before: number

  private constructor(pid: number) {
    this.#pid = pid
    writeFileSync(`/proc/${pid}/clear_refs`, '5')
    this.#before = this.#bytes()
  }

  static async of(server: TestServer): Promise<Peak> {
    return new Peak((await server.get('/api/health')).pid)
  }

  #bytes(): number {
    return Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${this.#pid}/status`, 'utf8'))?.[1]) * 1_024
  }

  get grownBytes(): number {
    return this.#bytes() - this.#before
  }
}

/** A client that checks each message and keeps none, because hundreds of megabytes pass. */
class Listener implements Disposable {
  readonly socket: Socket
  received = 0
  stray: string | undefined
  readonly #complete = Promise.withResolvers<Json>()

  private constructor(url: string) {
    this.socket = io(url, { transports: ['websocket'], reconnection: false, forceNew: true })
    this.socket.on('agent:message', ({ message }: Json) => {
      this.received += 1
      const isExpected = message.sequenceNumber === this.received && (this.received === 1 || message.content === line(this.received - 1))
      if (!isExpected) this.stray ??= `${this.received}: ${JSON.stringify(message).slice(0, 200)}`
    })
    this.socket.on('agent:complete', (event) => this.#complete.resolve(event))
    this.socket.on('disconnect', (reason) => this.#complete.reject(new Error(`disconnected: ${reason}`)))
    // The rejection of `complete` is for callers that await it. Not every test awaits it.
    this.#complete.promise.catch(() => {})
  }

  static async to(url: string, agentId: string): Promise<Listener> {
    const listener = new Listener(url)
    await new Promise((resolve) => listener.socket.once('connected', resolve))
    listener.socket.emit('subscribe', { agentId, since: 0 })
    await new Promise((resolve) => listener.socket.once('subscribed', resolve))
    return listener
  }

  /** Resolves with the event that follows the last message. */
  get complete(): Promise<Json> {
    return this.#complete.promise
  }

  [Symbol.dispose](): void {
    this.socket.disconnect()
  }
}

/** The websocket of the client. While paused, it reads nothing, like a stopped program. */
function wire(socket: Socket): { pause(): void; resume(): void; terminate(): void } {
  return (socket.io.engine as Json).transport.ws
}

const line = (number: number): string => `${String(number).padStart(6, '0')} ${padding}`

describe('a conversation of 80 MB', () => {
  let server: TestServer
  let id: string

  beforeAll(async () => {
    // The heap of the server is too small for the conversation.
    server = await startServer([], { env: { NODE_OPTIONS: '--max-old-space-size=80' } })
  })
  afterAll(() => server.stop())

  it('a subscriber that stops reading slows no other, and misses nothing when it continues', async () => {
    const gate = join(temporaryHome(), 'gate')
    id = await server.command(['sh', '-c', `until [ -e ${gate} ]; do sleep 0.01; done; exec seq -f '%06.0f ${padding}' 1 ${lines}`])
    using slow = await Listener.to(server.url, id)
    using healthy = await Listener.to(server.url, id)
    wire(slow.socket).pause()
    const peak = await Peak.of(server)
    writeFileSync(gate, '')
    expect(await healthy.complete).toMatchObject({ result: { status: 'success', messageCount: lines + 1 } })
    expect([healthy.stray, healthy.received]).toEqual([undefined, lines + 1])
    expect(await statusAtEnd(server, id)).toBe('completed')
    expect(slow.received).toBeLessThan(lines)
    expect(peak.grownBytes).toBeLessThan(mostBytes)
    expect(await server.get('/api/cleanup/status')).toMatchObject({ activeSubscriptions: 2 })

    wire(slow.socket).resume()
    expect(await slow.complete).toMatchObject({ result: { messageCount: lines + 1 } })
    expect([slow.stray, slow.received]).toEqual([undefined, lines + 1])
    expect(peak.grownBytes).toBeLessThan(mostBytes)
  }, 180_000)

  it('the server does not buffer it for callers that do not read their answer', async () => {
    const peak = await Peak.of(server)
    const { hostname, port } = new URL(server.url)
    const callers = await Promise.all(
      Array.from({ length: 30 }, async () => {
        const caller = connect(Number(port), hostname).pause()
        caller.write(`GET /api/agents/${id}/messages HTTP/1.1\r\nHost: ${hostname}:${port}\r\n\r\n`)
        // The caller has received the first bytes, so the server is working on the answer.
        await new Promise<void>((resolve, reject) => caller.once('readable', resolve).once('error', reject))
        return caller
      }),
    )
    const answered = await server.get(`/api/agents/${id}/messages?since=${lines}`)
    expect(answered).toMatchObject([{ content: line(lines) }])
    expect(peak.grownBytes).toBeLessThan(mostBytes)
    for (const caller of callers) caller.destroy()
    // The deletion of the agent waits neither for these callers nor for an answer that is being sent.
    expect((await server.call('DELETE', `/api/agents/${id}`)).status).toBe(204)
  })
})

describe('clients that connect and leave', () => {
  const server = useServer()

  async function serverFiles(): Promise<number> {
    return readdirSync(`/proc/${(await server.get('/api/health')).pid}/fd`).length
  }

  /** Waits until the server has noticed that all clients are gone. Fails with the number that it still counts. */
  async function requireNobody(): Promise<void> {
    const until = performance.now() + 45_000
    const left = async (): Promise<number> => (await server.get('/api/cleanup/status')).activeSubscriptions
    while ((await left()) > 0 && performance.now() < until) await server.get('/api/health')
    expect(await left()).toBe(0)
  }

  it('five hundred subscriptions, ended in every way, leave nothing', async () => {
    const id = await server.command(['sh', '-c', 'i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done'])
    await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
    const files = await serverFiles()
    const visit = async (turn: number): Promise<void> => {
      const socket = io(server.url, { transports: ['websocket'], reconnection: false, forceNew: true })
      await new Promise((resolve) => socket.once('connected', resolve))
      socket.emit('subscribe', { agentId: id, since: 0 })
      // The clients leave in turns: before the answer to the subscription, after it, during the messages, and without a close frame.
      if (turn % 4 > 0) await new Promise((resolve) => socket.once(turn % 4 === 1 ? 'subscribed' : 'agent:message', resolve))
      if (turn % 4 === 3) wire(socket).terminate()
      else socket.disconnect()
    }
    for (let turn = 0; turn < 500; turn += 25) await Promise.all(Array.from({ length: 25 }, (_, index) => visit(turn + index)))
    await requireNobody()
    // A few HTTP connections stay open for the next call (keep-alive).
    const until = performance.now() + 30_000
    while ((await serverFiles()) > files + 5 && performance.now() < until) await server.get('/api/health')
    expect(await serverFiles()).toBeLessThanOrEqual(files + 5)
    expect((await server.get(`/api/agents/${id}/status`)).status).toBe('running')
  }, 120_000)

  it('a client that sends requests and reads no answer is disconnected, and others are served', async () => {
    const id = await server.command(['sleep', '1000'])
    const socket = io(server.url, { transports: ['websocket'], reconnection: false, forceNew: true })
    await new Promise((resolve) => socket.once('connected', resolve))
    socket.emit('subscribe', { agentId: id })
    await new Promise((resolve) => socket.once('subscribed', resolve))
    wire(socket).pause()
    const peak = await Peak.of(server)
    // Each request is answered with an error that repeats the id.
    const badRequest = { agentId: 'x'.repeat(100) }
    for (let turn = 0; turn < 60_000; turn++) socket.emit('subscribe', badRequest)
    await requireNobody()
    expect(peak.grownBytes).toBeLessThan(mostBytes)
    const other = await server.socket()
    other.socket.emit('subscribe', { agentId: id, since: 0 })
    await other.event('agent:message')
    wire(socket).terminate()
  }, 120_000)
})
