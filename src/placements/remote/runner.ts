import { type IncomingMessage, Agent as PlainAgent, request as plainRequest } from 'node:http'
import { Agent as SecureAgent, request as secureRequest } from 'node:https'
import { isIP } from 'node:net'
import { EbbError, sentence } from '../../core/model/errors.ts'
import { isRemote, type McpServer } from '../../core/model/mcp.ts'
import type { Clock } from '../../core/ports/clock.ts'
import { installationHeader, type RunnerOrder } from '../../core/ports/runner.ts'
import { EventReader } from './events.ts'
import {
  type Runner,
  type RunnerCall,
  RunnerDenied,
  type RunnerHealth,
  type RunnerNews,
  type RunnerQueries,
  type RunnerStatus,
  type RunnerStream,
  RunnerUnreachable,
} from './ports.ts'

/**
 * The client of a runner host; it speaks the runner protocol (docs/in-depth/runner.md). Every call has a deadline. Bodies and headers
 * are bounded, because a runner's answer may be of any length.
 */

/** The timeout of a query, less than the engine's deadline for an observation. */
const observeTimeoutMs = 4_000

/** The timeout of a stop. The runner goes through the whole ladder and proves the end. A caller with less time aborts the call. */
const stopMs = 60_000

/** The timeout of a launch. A runner may have a queue of launches. */
const launchMs = 45_000

/** The maximum size of an answer. The largest answer is the report of a stop that failed. */
const mostBodyBytes = 1_048_576

/** True when the text may be used as an id. Ids become parts of addresses and of messages, so spaces and control characters are refused. */
const isId = (text: string): boolean => /^[\x21-\x7e]{1,200}$/.test(text)

interface Ask extends RunnerCall {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly body?: object
  readonly deadlineMs: number
}

interface Reply {
  readonly status: number
  readonly installation?: string
  readonly json: Readonly<Record<string, unknown>>
}

export class HttpRunner implements Runner {
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
  }

  async stream(call: RunnerCall, order: RunnerOrder): Promise<RunnerStream> {
    const hangUp = new AbortController()
    const cancel = (): void => hangUp.abort(noLongerNeeded)
    const ask: Ask = { ...call, signal: hangUp.signal, method: 'POST', path: 'agent/stream', body: bodyOf(order), deadlineMs: launchMs }
    if (call.signal.aborted) cancel()
    call.signal.addEventListener('abort', cancel, { once: true })
    try {
      const response = await open(this.#clock, ask)
      if (response.statusCode !== 200) throw notStarted(ask, response.statusCode ?? 0, await jsonOf(response))
      const agentId = String(response.headers['x-agent-id'] ?? '')
      if (!isId(agentId)) throw new Error(`${named(ask)} returned no valid agent id (X-Agent-Id).`)
      return { agentId, news: news(response, ask), hangUp: cancel }
    } catch (error) {
      // Closing the connection stops an agent that the runner may have started.
      cancel()
      throw error
    } finally {
      // The launch is over, so an abort of the caller's signal must not end the stream any more.
      call.signal.removeEventListener('abort', cancel)
    }
  }

  async stop(call: RunnerCall, agentId: string, isForced: boolean): Promise<'stopped' | 'not-found'> {
    const path = `agent/stop/${encodeURIComponent(agentId)}`
    const ask: Ask = { ...call, method: 'POST', path, deadlineMs: stopMs, ...(isForced && { body: { force: true } }) }
    const { status, json } = await answer(this.#clock, ask)
    if (status === 404 && (await isAboutAgent(this.#clock, ask, json, agentId))) return 'not-found'
    if (status !== 200 || json.status !== 'stopped') throw refusal(ask, status, json)
    return 'stopped'
  }
}

export class HttpRunnerQueries implements RunnerQueries {
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
  }

  async health(call: RunnerCall): Promise<RunnerHealth> {
    const ask: Ask = { ...call, method: 'GET', path: 'health', deadlineMs: observeTimeoutMs }
    const { status, json } = await answer(this.#clock, ask)
    // The runner protocol prescribes no value for `status`, so any text is accepted.
    if (status !== 200 || typeof json.status !== 'string') throw refusal(ask, status, json)
    const { active_agents: active, installation } = json
    return {
      activeAgents: typeof active === 'number' ? active : 0,
      ...(typeof installation === 'string' && isId(installation) && { installation }),
    }
  }

  async status(call: RunnerCall, agentId: string): Promise<RunnerStatus> {
    const ask: Ask = { ...call, method: 'GET', path: `agent/status/${encodeURIComponent(agentId)}`, deadlineMs: observeTimeoutMs }
    const { status, json, installation } = await answer(this.#clock, ask)
    const who = installation === undefined ? {} : { installation }
    if (status === 404 && (await isAboutAgent(this.#clock, ask, json, agentId))) return { is: 'not-found', ...who }
    if (status !== 200 || typeof json.process_alive !== 'boolean' || json.agent_id !== agentId) throw refusal(ask, status, json)
    return {
      is: 'known',
      isAlive: json.process_alive,
      exitCode: Number.isInteger(json.exit_code) ? (json.exit_code as number) : null,
      signal: typeof json.signal === 'string' && /^SIG[A-Z0-9+]{1,12}$/.test(json.signal) ? json.signal : null,
      ...who,
    }
  }
}

/**
 * The body of a launch. Its first fields are those of the runner protocol, for every runner. An Ebb runner also gets the whole
 * configuration and the id.
 */
function bodyOf({ agentId, type, prompt, configuration }: RunnerOrder): object {
  const { sessionId, model, workingDirectory, allowedTools, disallowedTools, mcp } = configuration
  const servers = mcp?.servers.map((server) => [server.name, serverOf(server)] as const)
  return {
    prompt,
    type,
    ...(sessionId !== undefined && { session_id: sessionId }),
    ...(model !== undefined && { model }),
    ...(workingDirectory !== undefined && { working_directory: workingDirectory }),
    ...(allowedTools && { allowed_tools: allowedTools }),
    ...(disallowedTools && { disallowed_tools: disallowedTools }),
    ...(servers && { mcp_config: JSON.stringify({ mcpServers: Object.fromEntries(servers) }) }),
    ...(mcp?.strict !== undefined && { mcp_strict: mcp.strict }),
    agent_id: agentId,
    configuration,
  }
}

/** The format of the configuration files of the agent programs. */
function serverOf(server: McpServer): object {
  const { command, args, env, transport } = server
  if (isRemote(server)) return { type: transport, url: command }
  return { type: 'stdio', command, ...(args && { args }), ...(env && { env }) }
}

/** Every call opens a connection of its own. An idle one may be half-open without any sign. */
function send({ place, token, method, path, body, signal }: Ask): Promise<IncomingMessage> {
  const base = place.url.endsWith('/') ? place.url : `${place.url}/`
  const url = new URL(path, base)
  const isSecure = url.protocol === 'https:'
  const text = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
  return new Promise((resolve, reject) => {
    const request = (isSecure ? secureRequest : plainRequest)(url, {
      method,
      signal,
      agent: isSecure ? new SecureAgent({ keepAlive: false }) : new PlainAgent({ keepAlive: false }),
      headers: {
        accept: 'application/json, text/event-stream',
        // `host` is set because a runner that listens on all addresses does not know them, and accepts only the names that it was given
        // (`--allow-host`). With TLS it is not set: Node would expect this name in the certificate, instead of that of the address.
        ...(!isSecure && isNumber(url) && { host: 'localhost' }),
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(text && { 'content-type': 'application/json', 'content-length': text.length }),
      },
    })
    request.once('error', reject)
    request.once('response', (response) => {
      // Errors after the response has begun are reported to the reader of the response.
      request.on('error', () => {})
      resolve(response)
    })
    request.end(text)
  })
}

function isNumber({ hostname }: URL): boolean {
  return isIP(hostname.replace(/^\[|\]$/g, '')) > 0
}

/** Sends a request. Resolves with the response when its headers have arrived. */
async function open(clock: Clock, ask: Ask): Promise<IncomingMessage> {
  return await inTime(clock, ask, (signal) => send({ ...ask, signal: AbortSignal.any([ask.signal, signal]) }))
}

/** Reads the whole answer. */
async function answer(clock: Clock, ask: Ask): Promise<Reply> {
  return await inTime(clock, ask, async (signal) => {
    const response = await send({ ...ask, signal: AbortSignal.any([ask.signal, signal]) })
    const installation = response.headers[installationHeader]
    return {
      status: response.statusCode ?? 0,
      json: await jsonOf(response),
      ...(typeof installation === 'string' && isId(installation) && { installation }),
    }
  })
}

const noLongerNeeded = 'no longer needed'

async function inTime<T>(clock: Clock, ask: Ask, work: (late: AbortSignal) => Promise<T>): Promise<T> {
  const late = new AbortController()
  const over = new AbortController()
  clock.after(ask.deadlineMs, over.signal, () => late.abort(noLongerNeeded))
  try {
    return await work(late.signal)
  } catch (error) {
    if (late.signal.aborted)
      throw new RunnerUnreachable(`${named(ask)} did not answer within ${ask.deadlineMs / 1_000} s.`, { cause: error })
    if (ask.signal.aborted) throw new RunnerUnreachable(`${named(ask)} was called, but the caller no longer waits.`, { cause: error })
    throw new RunnerUnreachable(`${named(ask)} cannot be reached: ${sentence(error) || 'no connection'}.`, { cause: error })
  } finally {
    over.abort(noLongerNeeded)
  }
}

async function jsonOf(response: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of response as AsyncIterable<Buffer>) {
    bytes += part.length
    if (bytes > mostBodyBytes) {
      response.destroy()
      throw new Error(`its answer is longer than ${mostBodyBytes} bytes`)
    }
    parts.push(part)
  }
  if (bytes === 0) return {}
  try {
    const value: unknown = JSON.parse(Buffer.concat(parts).toString('utf8'))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : noJson
  } catch {
    return noJson
  }
}

/** Stands for the body of an answer that is not JSON, such as the page of a proxy. */
const noJson: Reply['json'] = {}

/** Yields the events of an agent until the last one. Throws when the connection is lost before that. */
async function* news(response: IncomingMessage, ask: Ask): AsyncGenerator<RunnerNews> {
  const events = new EventReader()
  for await (const chunk of response as AsyncIterable<Buffer>) {
    for (const one of events.add(chunk)) {
      yield one
      if (one.is === 'complete' || one.is === 'error') return
    }
  }
  throw new Error(`${named(ask)} ended the stream without saying how the agent ended.`)
}

/**
 * True when a 404 is about the agent, and not about an address without a runner. Frameworks repeat the unknown path, and with it the words
 * "agent" and "not found" (Fastify: "Route GET:/agent/status/ID not found"; NestJS: "Cannot GET /agent/…"). Proxies send a page. The runner
 * protocol prescribes no body, so a 404 without any of these counts when a runner answers the health check at the same address.
 */
async function isAboutAgent(clock: Clock, ask: Ask, reply: Reply['json'], agentId: string): Promise<boolean> {
  const { code, agent_id: named, error, detail, message } = reply
  if (code === 'agent_not_found' || named === agentId) return true
  const texts = [error, detail, message].filter((text) => typeof text === 'string').map((text) => text.slice(0, 1_000))
  if (texts.some((text) => saysNoAgent(text, agentId))) return true
  if (reply === noJson || named !== undefined || texts.some((text) => text.includes('agent/'))) return false
  const { place, token, signal } = ask
  const { status, json } = await answer(clock, { place, token, signal, method: 'GET', path: 'health', deadlineMs: observeTimeoutMs })
  return status === 200 && typeof json.status === 'string' && typeof json.active_agents === 'number'
}

function saysNoAgent(text: string, agentId: string): boolean {
  const said = text.replaceAll(agentId, ' ').replace(/\S*\/\S*/g, ' ')
  return /\bagent\b.{0,80}\b(not found|unknown|does not exist|not exist)\b|\b(no such|unknown|no) agent\b/is.test(said)
}

/**
 * The error of a launch that failed. When the runner refused the launch (400, or 422 from frameworks that validate bodies), nothing was
 * started, so the launch counts as refused.
 */
function notStarted(ask: Ask, status: number, json: Reply['json']): Error {
  const error = refusal(ask, status, json)
  return status === 400 || status === 422 ? new EbbError('launch_refused', `${error.message} Nothing was launched.`) : error
}

function refusal(ask: Ask, status: number, { message, error, detail }: Reply['json']): Error {
  if (status === 401 || status === 403)
    return new RunnerDenied(`${named(ask)} refuses access (${status}); check the token, and that the runner allows this host name.`)
  const said = [message, error, detail].find((text) => typeof text === 'string' && text !== '') as string | undefined
  const reason = said === undefined ? ', which is not an answer of a runner' : `: ${said.slice(0, 1_000).replace(/\.$/, '')}`
  return new Error(`${named(ask)} answered ${status}${reason}.`)
}

function named({ place }: RunnerCall): string {
  return `The runner at ${place.url}`
}
