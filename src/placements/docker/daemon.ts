import { readFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { Agent as TlsAgent } from 'node:https'
import { join } from 'node:path'
import { inspect } from 'node:util'
import type Dockerode from 'dockerode'
import type { DockerOptions } from 'dockerode'
import { EbbError } from '../../core/model/errors.ts'
import type { Clock } from '../../core/ports/clock.ts'

/** The connection to a Docker daemon: one client, loaded on first use, and a timeout for every call. */

export interface DaemonPlace {
  /** The address of the daemon: `unix:///PATH` or `tcp://HOST:PORT`. */
  readonly host: string
  /** A folder with ca.pem, cert.pem and key.pem, for a daemon that requires TLS (`DOCKER_CERT_PATH`). */
  readonly certificates?: string
}

const defaultSocket = 'unix:///var/run/docker.sock'

/**
 * The configured address, from the setting or DOCKER_HOST, else the default socket. Certificates are found as the docker command finds
 * them.
 */
export function daemonPlace(configured: string | undefined, environment: Readonly<Record<string, string | undefined>>): DaemonPlace {
  const host = configured ?? defaultSocket
  const certificates = environment.DOCKER_CERT_PATH
  return { host, ...(host.startsWith('tcp:') && environment.DOCKER_TLS_VERIFY && certificates && { certificates }) }
}

/** An error of the daemon, with the HTTP status of its answer. Without a status there was no answer, and the state is unknown. */
export class DockerError extends Error {
  override readonly name = 'DockerError'
  readonly status: number | undefined

  constructor(message: string, status: number | undefined, cause: unknown) {
    super(message, { cause })
    this.status = status
  }
}

/** The answer was cut off, or is not from a Docker daemon. The daemon may have carried out the request all the same. */
export function unreadable(wanted: string): DockerError {
  return new DockerError(
    `the Docker daemon's answer is not ${wanted}; check the proxy or tunnel between it and this host`,
    undefined,
    undefined,
  )
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

  /** Makes one call with a timeout, so that a daemon that hangs cannot hang a close. */
  async call<T>(
    budgetMs: number,
    signal: AbortSignal | undefined,
    work: (client: Dockerode, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const client = await this.client()
    const late = new AbortController()
    const done = new AbortController()
    this.#clock.after(budgetMs, done.signal, () => late.abort())
    try {
      const aborted = signal ? AbortSignal.any([signal, late.signal]) : late.signal
      return await Promise.race([work(client, aborted), rejected(aborted)])
    } catch (error) {
      if (late.signal.aborted) throw new DockerError(`the Docker daemon did not answer within ${budgetMs} ms`, undefined, error)
      throw this.#translated(error)
    } finally {
      done.abort('no longer needed')
    }
  }

  /** Loads dockerode on first use only: most installations of Ebb have no Docker. */
  client(): Promise<Dockerode> {
    this.#client ??= load().then((Client) => new Client(optionsOf(this.place)))
    // A failed load is retried by the next call, which finds a package that was installed in the meantime.
    this.#client.catch(() => {
      this.#client = undefined
    })
    return this.#client
  }

  /** Opens a streamed answer. Rejects when the daemon refuses the request. */
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
    const { statusCode, json, message, code } = error as ModemError
    if (statusCode === undefined)
      return new DockerError(
        `the Docker daemon at ${this.place.host} does not answer (${code ?? message ?? String(error)})`,
        undefined,
        error,
      )
    return new DockerError(`the Docker daemon answered: ${json?.message ?? message ?? statusCode}`.trim(), statusCode, error)
  }
}

interface StreamRequest {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly query: Readonly<Record<string, string | boolean>>
}

/** The errors that docker-modem throws. */
interface ModemError {
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
      'The placement docker needs the package dockerode, which is not installed; run "npm install dockerode" beside Ebb.',
      { cause },
    )
  }
}

/**
 * Connections are kept alive, because opening one takes as long as a call. docker-modem formats the options of every request for its debug
 * log, even when that is off, with everything reachable from the agent: ten concurrent calls took 15 s.
 */
function withoutDebugFormat<T extends Agent>(agent: T): T {
  return Object.assign(agent, { [inspect.custom]: () => 'agent' })
}

/** docker-modem reads missing options from the environment, so every option is set. */
function optionsOf({ host, certificates }: DaemonPlace): DockerOptions {
  const agent = withoutDebugFormat(new Agent({ keepAlive: true }))
  const nothing = { host: undefined, port: undefined, protocol: 'http', ca: undefined, cert: undefined, key: undefined } as const
  if (host.startsWith('unix://')) return { ...nothing, socketPath: host.slice('unix://'.length), agent } as unknown as DockerOptions
  const url = new URL(host)
  const place = { ...nothing, host: url.hostname, port: url.port || (certificates === undefined ? '2375' : '2376'), pathPrefix: '/' }
  if (certificates === undefined) return { ...place, agent } as unknown as DockerOptions
  const [ca, cert, key] = ['ca.pem', 'cert.pem', 'key.pem'].map((file) => readFileSync(join(certificates, file)))
  return {
    ...place,
    protocol: 'https',
    ca,
    cert,
    key,
    agent: withoutDebugFormat(new TlsAgent({ keepAlive: true })),
  } as unknown as DockerOptions
}

function rejected(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const fail = (): void => reject(new Error('the call was aborted'))
    if (signal.aborted) fail()
    else signal.addEventListener('abort', fail, { once: true })
  })
}
