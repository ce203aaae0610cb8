import { readFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { Agent as TlsAgent } from 'node:https'
import { join } from 'node:path'
import { inspect } from 'node:util'
import type Dockerode from 'dockerode'
import type { DockerOptions } from 'dockerode'
import { EbbError } from '../../core/model/errors.ts'
import type { Clock } from '../../core/ports/clock.ts'

/** The way to a Docker daemon: one client, loaded when it is first needed, and a deadline for every call. */

export interface DaemonPlace {
  /** `unix:///PATH` or `tcp://HOST:PORT`. */
  readonly host: string
  /** A folder with ca.pem, cert.pem and key.pem, where the daemon wants them (`DOCKER_CERT_PATH`). */
  readonly certificates?: string
}

const usualSocket = 'unix:///var/run/docker.sock'

/** What was said, in a setting or in DOCKER_HOST, else the usual socket; its certificates as the docker command finds them. */
export function daemonPlace(said: string | undefined, environment: Readonly<Record<string, string | undefined>>): DaemonPlace {
  const host = said ?? usualSocket
  const certificates = environment.DOCKER_CERT_PATH
  return { host, ...(host.startsWith('tcp:') && environment.DOCKER_TLS_VERIFY && certificates && { certificates }) }
}

/** What the daemon answered, with the status of its answer. Without a status there was no answer, and nothing is known. */
export class DockerError extends Error {
  override readonly name = 'DockerError'
  readonly status: number | undefined

  constructor(message: string, status: number | undefined, cause: unknown) {
    super(message, { cause })
    this.status = status
  }
}

/** Cut off, or not of a daemon: what was asked for may have been done all the same. */
export function unreadable(wanted: string): DockerError {
  return new DockerError(`the Docker daemon's answer is not ${wanted}; look at what is between it and this host`, undefined, undefined)
}

export function statusOf(error: unknown): number | undefined {
  return error instanceof DockerError ? error.status : undefined
}

export class Daemon {
  readonly place: DaemonPlace
  readonly #clock: Clock
  #client: Promise<Dockerode> | undefined

  constructor(place: DaemonPlace, clock: Clock) {
    this.place = place
    this.#clock = clock
  }

  /** One call, with its deadline: a daemon that hangs must not hang a close. */
  async call<T>(
    budgetMs: number,
    signal: AbortSignal | undefined,
    work: (client: Dockerode, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const client = await this.client()
    const late = new AbortController()
    const over = new AbortController()
    this.#clock.after(budgetMs, over.signal, () => late.abort())
    try {
      const aborted = signal ? AbortSignal.any([signal, late.signal]) : late.signal
      return await Promise.race([work(client, aborted), rejected(aborted)])
    } catch (error) {
      if (late.signal.aborted) throw new DockerError(`the Docker daemon did not answer within ${budgetMs} ms`, undefined, error)
      throw this.#translated(error)
    } finally {
      over.abort('no longer needed')
    }
  }

  /** Loaded here and nowhere else: most who use Ebb have no Docker. */
  client(): Promise<Dockerode> {
    this.#client ??= load().then((Client) => new Client(optionsOf(this.place)))
    // Who installs it meanwhile need not start anew.
    this.#client.catch(() => {
      this.#client = undefined
    })
    return this.#client
  }

  /** One answer that comes in pieces; rejects when the daemon refuses. */
  async stream(request: StreamRequest, signal: AbortSignal): Promise<NodeJS.ReadableStream & AsyncIterable<Uint8Array>> {
    const { modem } = await this.client()
    const { method, path, query } = request
    const statusCodes = { 200: true, 400: 'bad parameter', 404: 'no such container', 500: 'server error' }
    const dialled = { path: `${path}?`, method, isStream: true, statusCodes, options: { _query: query, _body: {} }, abortSignal: signal }
    try {
      return await new Promise((resolve, reject) => {
        modem.dial(dialled, (error: unknown, answer: unknown) =>
          error ? reject(error) : resolve(answer as NodeJS.ReadableStream & AsyncIterable<Uint8Array>),
        )
      })
    } catch (error) {
      throw this.#translated(error)
    }
  }

  #translated(error: unknown): Error {
    if (error instanceof EbbError || error instanceof DockerError) return error
    const { statusCode, json, message, code } = error as Answered
    if (statusCode === undefined)
      return new DockerError(
        `the Docker daemon at ${this.place.host} does not answer (${code ?? message ?? String(error)})`,
        undefined,
        error,
      )
    return new DockerError(`the Docker daemon says: ${json?.message ?? message ?? statusCode}`.trim(), statusCode, error)
  }
}

interface StreamRequest {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly query: Readonly<Record<string, string | boolean>>
}

/** What docker-modem throws. */
interface Answered {
  readonly statusCode?: number
  readonly json?: { readonly message?: string } | null
  readonly message?: string
  readonly code?: string
}

async function load(): Promise<typeof Dockerode> {
  try {
    const loaded = await import('dockerode')
    return loaded.default
  } catch (cause) {
    throw new EbbError(
      'launch_refused',
      'The placement docker needs the package dockerode, which is not installed; "npm install dockerode" beside ebb installs it.',
      { cause },
    )
  }
}

/**
 * Connections are used again and again; to make one takes as long as a call. docker-modem prints the options of every request
 * for its debug log, whether there is one or not, with all that hangs on the agent: ten calls at once then took 15 s.
 */
function quiet<T extends Agent>(agent: T): T {
  return Object.assign(agent, { [inspect.custom]: () => 'agent' })
}

/** docker-modem looks into the environment for what is not given, so everything is. */
function optionsOf({ host, certificates }: DaemonPlace): DockerOptions {
  const agent = quiet(new Agent({ keepAlive: true }))
  const nothing = { host: undefined, port: undefined, protocol: 'http', ca: undefined, cert: undefined, key: undefined } as const
  if (host.startsWith('unix://')) return { ...nothing, socketPath: host.slice('unix://'.length), agent } as unknown as DockerOptions
  const url = new URL(host)
  const place = { ...nothing, host: url.hostname, port: url.port || (certificates === undefined ? '2375' : '2376'), pathPrefix: '/' }
  if (certificates === undefined) return { ...place, agent } as unknown as DockerOptions
  const [ca, cert, key] = ['ca.pem', 'cert.pem', 'key.pem'].map((file) => readFileSync(join(certificates, file)))
  return { ...place, protocol: 'https', ca, cert, key, agent: quiet(new TlsAgent({ keepAlive: true })) } as unknown as DockerOptions
}

function rejected(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const fail = (): void => reject(new Error('the call was given up'))
    if (signal.aborted) fail()
    else signal.addEventListener('abort', fail, { once: true })
  })
}
