import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { within } from '../testing/race.ts'
import { type AnswerContext, type Ended, play } from './answer.ts'
import { type Api, tokensIn } from './api.ts'
import { anthropicMessages } from './apis/anthropic-messages.ts'
import { gemini } from './apis/gemini.ts'
import { openaiChat } from './apis/openai-chat.ts'
import { openaiResponses } from './apis/openai-responses.ts'
import { type Conversation, fitting, isAside, type Json } from './conversation.ts'
import { makeHome, removeAbandonedHomes, removeHome } from './folders.ts'
import { furnish } from './homes.ts'
import { Memory, type ModelRequest, type Mutable } from './memory.ts'
import { Outlet } from './outlet.ts'
import { Plot } from './plot.ts'
import { type Body, readJson, refusal } from './request.ts'
import type { Script, Step } from './script.ts'

export interface ModelOptions {
  readonly script?: Script
  /** The port to listen on. Default: a free port. */
  readonly port?: number
  /** Called when a request arrives, and again when its state changes. */
  readonly onRequest?: (request: ModelRequest) => void
}

export interface ScriptedModel extends AsyncDisposable {
  /** The address of the server, `http://127.0.0.1:PORT`. */
  readonly url: string
  /** The latest thousand requests, oldest first. */
  readonly requests: readonly ModelRequest[]
  /** Uses this script for new requests. Answers that have begun continue with the old script. */
  follow(script: Script): void
  /**
   * Resolves with the first matching request, past or future. `fits` is called again when a request changes its state. Throws at the
   * deadline.
   */
  waitFor(fits: (request: ModelRequest) => boolean, timeoutMs?: number): Promise<ModelRequest>
  /**
   * Writes the files with which an agent uses only this model into `home`, or into a temporary folder that is removed when the model
   * closes. Returns the environment to run the agent with. `type` is that of a provider: `claude-code`, `codex`, `gemini-cli` or
   * `opencode`.
   */
  homeFor(type: string, home?: string): Promise<Readonly<Record<string, string>>>
  /** Stops the server. Unfinished answers are broken off. */
  close(): Promise<void>
}

const apis: readonly Api[] = [anthropicMessages, openaiResponses, openaiChat, gemini]

/** Starts a model server on loopback that answers from a script. Use it with `await using`. */
export async function startScriptedModel({ script = {}, port = 0, onRequest }: ModelOptions = {}): Promise<ScriptedModel> {
  const model = new Model(script, onRequest)
  await removeAbandonedHomes()
  await model.listen(port)
  return model
}

class Model implements ScriptedModel {
  url = ''
  readonly #memory = new Memory()
  #plot: Plot
  readonly #server: Server
  readonly #onRequest: ModelOptions['onRequest']
  readonly #waiting = new Set<() => void>()
  readonly #homes = new Set<string>()

  constructor(script: Script, onRequest?: ModelOptions['onRequest']) {
    this.#plot = new Plot(script)
    this.#onRequest = onRequest
    this.#server = createServer((request, response) => {
      // A request that fails here could not be read, for example because the client disconnected.
      this.#handle(request, response).catch(() => response.destroy())
    })
    // An agent may pause for hours between two requests on one connection.
    this.#server.keepAliveTimeout = 0
    this.#server.requestTimeout = 0
  }

  get requests(): readonly ModelRequest[] {
    return this.#memory.requests
  }

  async listen(port: number): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#server.once('error', reject).listen(port, '127.0.0.1', resolve)
    await promise
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  follow(script: Script): void {
    this.#plot = new Plot(script)
  }

  async waitFor(fits: (request: ModelRequest) => boolean, timeoutMs = 30_000): Promise<ModelRequest> {
    const { promise, resolve, reject } = Promise.withResolvers<ModelRequest>()
    const check = (): void => {
      try {
        const found = this.requests.find(fits)
        if (found) resolve(found)
      } catch (error) {
        reject(error)
      }
    }
    this.#waiting.add(check)
    check()
    try {
      return await within(timeoutMs, promise, () => {
        throw new Error(`No request that fits came within ${timeoutMs} ms; ${this.requests.length} came.`)
      })
    } finally {
      this.#waiting.delete(check)
    }
  }

  async homeFor(type: string, home?: string): Promise<Readonly<Record<string, string>>> {
    if (home !== undefined) return await furnish(type, home, this.url)
    const made = await makeHome()
    this.#homes.add(made)
    return await furnish(type, made, this.url)
  }

  async close(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#server.close(() => resolve())
    this.#server.closeAllConnections()
    await promise
    await this.#removeHomes()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /**
   * Removes every temporary home of the model. A home that cannot be removed does not stop the others, and a second `close` tries it again.
   */
  async #removeHomes(): Promise<void> {
    const homes = [...this.#homes]
    const removed = await Promise.allSettled(homes.map(async (home) => await removeHome(home)))
    const problems = removed.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
    for (const [place, home] of homes.entries()) if (removed[place]?.status === 'fulfilled') this.#homes.delete(home)
    if (problems.length > 0)
      throw new AggregateError(problems, `Homes of agents could not be removed; remove them by hand: ${[...this.#homes].join(', ')}.`)
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const outlet = new Outlet(response)
    // A base URL that ends with a slash leads to `//path`, which URL would parse as a host.
    const url = new URL((request.url ?? '/').replace(/^\/+/, '/'), 'http://localhost')
    const path = url.pathname
    const refused = refusal(request)
    if (refused) return outlet.json(403, { error: { message: refused } })
    if (request.method === 'GET') return this.#show(path, outlet)
    const api = apis.find((one) => one.call(path) !== undefined)
    if (!api || request.method !== 'POST') return outlet.json(request.method === 'HEAD' ? 200 : 404, unknownCall(request.method, path))
    const body = await readJson(request)
    if ('problem' in body) return outlet.json(body.status, api.error({ status: body.status, message: body.problem }))
    if (api.call(path) === 'count') return outlet.json(200, api.count(tokensIn(JSON.stringify(body.json))))
    await this.#answer(api, body, url, request, response, outlet)
  }

  #show(path: string, outlet: Outlet): void {
    if (path === '/requests') outlet.json(200, { requests: this.requests })
    else if (path.endsWith('/models'))
      outlet.json(200, { object: 'list', data: [{ id: 'scripted', object: 'model' }], models: [], has_more: false })
    else outlet.json(404, unknownCall('GET', path))
  }

  async #answer(api: Api, body: Body, url: URL, request: IncomingMessage, response: ServerResponse, outlet: Outlet): Promise<void> {
    const conversation = api.read(body.json, url)
    const { rule, steps, isAside } = this.#choose(conversation, request)
    const asked: ModelRequest = { ...pick(conversation), api: api.name, rule, isAside, state: 'open', body: body.json }
    const known: Mutable<ModelRequest> = this.#memory.keep(asked, body.bytes)
    this.#notify(known)
    const gone = new AbortController()
    response.once('close', () => gone.abort())
    const context: AnswerContext = { api, conversation, outlet, signal: gone.signal }
    let ended: Ended | 'gone'
    try {
      ended = await play(steps, context)
      if (ended === 'answered' && !response.writableFinished) await finished(response)
      if (ended === 'answered' && !response.writableFinished) ended = 'gone'
    } catch (error) {
      // After a disconnect there is no one to answer. Any other error is a defect of this server, so it is emitted as a warning.
      if (!gone.signal.aborted) response.destroy()
      if (!gone.signal.aborted) process.emitWarning(`The scripted model failed: ${String(error)}`)
      ended = 'gone'
    }
    known.state = ended
    this.#notify(known)
  }

  #choose(conversation: Conversation, request: IncomingMessage): { rule: number; steps: readonly Step[]; isAside: boolean } {
    if (isAside(conversation, request.headers['user-agent'] ?? '')) {
      const text = conversation.schema ? JSON.stringify(fitting(conversation.schema)) : 'Scripted'
      return { rule: -1, steps: [{ text }], isAside: true }
    }
    return { ...this.#plot.next(conversation, sessionOf(request)), isAside: false }
  }

  #notify(request: ModelRequest): void {
    this.#onRequest?.(request)
    for (const check of this.#waiting) check()
  }
}

function pick({
  model,
  prompt,
  tools,
  toolResults,
  turn,
}: Conversation): Pick<ModelRequest, 'model' | 'prompt' | 'tools' | 'toolResults' | 'turn'> {
  return { model, prompt, tools: tools.map(({ name }) => name), toolResults, turn }
}

/** Resolves when the last bytes of the response are handed to the kernel, or when the client has disconnected. */
async function finished(response: ServerResponse): Promise<void> {
  if (response.closed) return
  await new Promise<void>((resolve) => response.once('close', resolve).once('finish', resolve))
}

/** The session id that each agent sends in its own header: it distinguishes two agents with the same prompt. */
function sessionOf({ headers }: IncomingMessage): string {
  return String(headers['x-claude-code-session-id'] ?? headers['session-id'] ?? headers['x-session-id'] ?? '')
}

function unknownCall(method: string | undefined, path: string): Json {
  return { error: { message: `The scripted model has no ${method} ${path}.` } }
}
