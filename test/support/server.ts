import { io, type Socket } from 'socket.io-client'
import { type EbbOptions, type RunningEbb, startEbb, temporaryHome } from './home.ts'

/** A real `ebb serve` on a free port, driven from outside: HTTP by fetch, events by the public socket.io client. */

/** A value received over the network; each test asserts its shape. */
// biome-ignore lint/suspicious/noExplicitAny: the tests read the server's values without Ebb's types
export type Json = any

export interface Answer<T = unknown> {
  readonly status: number
  readonly headers: Headers
  readonly body: T
}

export interface CallOptions {
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

export interface TestServer extends AsyncDisposable {
  readonly url: string
  readonly home: string
  readonly ebb: RunningEbb
  call<T = Json>(method: string, path: string, options?: CallOptions): Promise<Answer<T>>
  get<T = Json>(path: string): Promise<T>
  post<T = Json>(path: string, body?: unknown): Promise<T>
  /** Launches an agent and returns its id. */
  launch(body: object): Promise<string>
  /** Launches an agent of `type: command`. */
  command(argv: readonly string[], more?: object): Promise<string>
  /** A connected client. It is closed with the server. */
  socket(auth?: object): Promise<Client>
  /** Sends SIGTERM to the server and waits for its end. */
  stop(): Promise<void>
}

/** A socket that records all events it receives. */
export interface Client {
  readonly socket: Socket
  readonly events: { readonly name: string; readonly data: Json }[]
  /** Resolves with the first matching event, past or future. */
  event(name: string, fits?: (data: Json) => boolean): Promise<Json>
  of(name: string): Json[]
}

/** The deadline of one call. It is shorter than the timeout of a test, whose error would not name the call that got no answer. */
const patienceMs = 45_000

export interface ServerOptions extends Partial<EbbOptions> {
  /** The port to listen on, such as the port of an earlier server. Default: a free port. */
  readonly port?: string
}

export async function startServer(words: readonly string[] = [], options: ServerOptions = {}): Promise<TestServer> {
  const home = options.home ?? temporaryHome()
  const ebb = startEbb(['serve', '--port', options.port ?? '0', '--json', '--test-endpoints', ...words], {
    deadlineMs: 600_000,
    ...options,
    home,
  })
  await ebb.says('\n')
  const { url } = JSON.parse(ebb.output().split('\n')[0] ?? '') as { url: string }
  const clients: Socket[] = []

  async function call<T>(method: string, path: string, { body, headers = {} }: CallOptions = {}): Promise<Answer<T>> {
    const json = body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json', ...headers } }
    const response = await fetch(url + path, { method, headers, ...json, signal: AbortSignal.timeout(patienceMs) }).catch(explain)
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: (text === '' ? undefined : parse(text)) as T }
  }

  /** When the server has died, the error contains the end of its output: "fetch failed" would hide an exhausted heap. */
  async function explain(error: unknown): Promise<never> {
    const { exitCode, signalCode } = ebb.child
    if (exitCode === null && signalCode === null) throw error
    throw new Error(`The server has ended (${signalCode ?? exitCode}): ${ebb.errorOutput().slice(-2_000)}`, { cause: error })
  }

  async function launch(body: object): Promise<string> {
    const answer = await call<Json>('POST', '/api/agents', { body })
    if (answer.status !== 201) throw new Error(`The launch was answered with ${answer.status}: ${JSON.stringify(answer.body)}`)
    return answer.body.id
  }

  const stop = async (): Promise<void> => {
    for (const client of clients) client.disconnect()
    ebb.signal('SIGTERM')
    await ebb.ended
  }

  return {
    url,
    home,
    ebb,
    call,
    get: async (path) => (await call<Json>('GET', path)).body,
    post: async (path, body) => (await call<Json>('POST', path, body === undefined ? {} : { body })).body,
    launch,
    command: (argv, more = {}) => launch({ type: 'command', prompt: '', configuration: { command: argv }, ...more }),
    socket: async (auth = {}) => {
      const socket = io(url, { auth, transports: ['websocket'], reconnection: false, forceNew: true })
      clients.push(socket)
      const client = remember(socket)
      const refused = new Promise<never>((_, reject) => socket.once('connect_error', reject))
      await Promise.race([client.event('connected'), refused])
      return client
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function countEvents(events: readonly { readonly name: string }[]): string {
  const counts = new Map<string, number>()
  for (const { name } of events) counts.set(name, (counts.get(name) ?? 0) + 1)
  return [...counts].map(([name, count]) => `${name} × ${count}`).join(', ')
}

export function remember(socket: Socket): Client {
  const events: { name: string; data: Json }[] = []
  const waiting = new Set<(name: string, data: Json) => void>()
  const record = (name: string, data: Json): void => {
    events.push({ name, data })
    for (const check of waiting) check(name, data)
  }
  socket.onAny(record)
  socket.on('connect_error', (error) => record('connect_error', { message: error.message }))
  return {
    socket,
    events,
    of: (name) => events.filter((event) => event.name === name).map((event) => event.data),
    event: (name, fits = () => true) => {
      const known = events.find((event) => event.name === name && fits(event.data))
      if (known) return Promise.resolve(known.data)
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          waiting.delete(check)
          reject(new Error(`No event ${name} within ${patienceMs} ms. Received: ${countEvents(events)}`))
        }, patienceMs)
        const check = (seen: string, data: Json): void => {
          if (seen !== name || !fits(data)) return
          clearTimeout(timer)
          waiting.delete(check)
          resolve(data)
        }
        waiting.add(check)
      })
    },
  }
}
