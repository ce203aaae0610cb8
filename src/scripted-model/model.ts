import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { within } from '../testing/race.ts'
import { type Audience, type Ended, play } from './answer.ts'
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
  /** A free one unless given. */
  readonly port?: number
  /** Told when a request has come, and again when its state has changed. */
  readonly onRequest?: (request: ModelRequest) => void
}

export interface ScriptedModel extends AsyncDisposable {
  /** `http://127.0.0.1:PORT`. */
  readonly url: string
  /** The latest thousand, oldest first. */
  readonly requests: readonly ModelRequest[]
  /** From now on this script; what is being answered goes on as it began. */
  follow(script: Script): void
  /** The first request that fits, come or still to come; asked again whenever a request changes its state. Throws at the deadline. */
  waitFor(fits: (request: ModelRequest) => boolean, timeoutMs?: number): Promise<ModelRequest>
  /**
   * Writes into `home`, or into a folder that goes when the model closes, what this agent needs to talk to this model and to
   * nobody else, and gives the environment to run it with. `type` is a provider's: `claude-code`, `codex`, `gemini-cli`,
   * `opencode`.
   */
  homeFor(type: string, home?: string): Promise<Readonly<Record<string, string>>>
  /** Breaks off what is being answered. */
  close(): Promise<void>
}

const apis: readonly Api[] = [anthropicMessages, openaiResponses, openaiChat, gemini]

/** A model on loopback that says what its script says. Use it with `await using`. */
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
      // Who hangs up while asking is not answered.
      this.#take(request, response).catch(() => response.destroy())
    })
    // An agent may think for hours between two requests on one connection.
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
    const look = (): void => {
      try {
        const found = this.requests.find(fits)
        if (found) resolve(found)
      } catch (error) {
        reject(error)
      }
    }
    this.#waiting.add(look)
    look()
    try {
      return await within(timeoutMs, promise, () => {
        throw new Error(`No request that fits came within ${timeoutMs} ms; ${this.requests.length} came.`)
      })
    } finally {
      this.#waiting.delete(look)
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

  /** One that cannot be removed keeps no other one, and is tried again by whoever closes again. */
  async #removeHomes(): Promise<void> {
    const homes = [...this.#homes]
    const removed = await Promise.allSettled(homes.map(async (home) => await removeHome(home)))
    const problems = removed.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
    for (const [place, home] of homes.entries()) if (removed[place]?.status === 'fulfilled') this.#homes.delete(home)
    if (problems.length > 0)
      throw new AggregateError(problems, `Homes of agents could not be removed; remove them by hand: ${[...this.#homes].join(', ')}.`)
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const outlet = new Outlet(response)
    // Two slashes would begin a host: a base URL that ends with one makes them.
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
    this.#tell(known)
    const gone = new AbortController()
    response.once('close', () => gone.abort())
    const audience: Audience = { api, conversation, outlet, signal: gone.signal }
    let ended: Ended | 'gone'
    try {
      ended = await play(steps, audience)
      if (ended === 'answered' && !response.writableFinished) await finished(response)
      if (ended === 'answered' && !response.writableFinished) ended = 'gone'
    } catch (error) {
      // Whoever went is not answered; anything else is ours, and is said where it can be seen.
      if (!gone.signal.aborted) response.destroy()
      if (!gone.signal.aborted) process.emitWarning(`The scripted model failed: ${String(error)}`)
      ended = 'gone'
    }
    known.state = ended
    this.#tell(known)
  }

  #choose(conversation: Conversation, request: IncomingMessage): { rule: number; steps: readonly Step[]; isAside: boolean } {
    if (isAside(conversation, request.headers['user-agent'] ?? '')) {
      const text = conversation.schema ? JSON.stringify(fitting(conversation.schema)) : 'Scripted'
      return { rule: -1, steps: [{ text }], isAside: true }
    }
    return { ...this.#plot.next(conversation, sessionOf(request)), isAside: false }
  }

  #tell(request: ModelRequest): void {
    this.#onRequest?.(request)
    for (const look of this.#waiting) look()
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

/** The last bytes are with the kernel, or the client went before. */
async function finished(response: ServerResponse): Promise<void> {
  if (response.closed) return
  await new Promise<void>((resolve) => response.once('close', resolve).once('finish', resolve))
}

/** Two agents may ask the same; each says in a header of its own which session it is. */
function sessionOf({ headers }: IncomingMessage): string {
  return String(headers['x-claude-code-session-id'] ?? headers['session-id'] ?? headers['x-session-id'] ?? '')
}

function unknownCall(method: string | undefined, path: string): Json {
  return { error: { message: `The scripted model has no ${method} ${path}.` } }
}
