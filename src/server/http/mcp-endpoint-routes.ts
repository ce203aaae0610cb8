import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Control } from '../../control.ts'
import { EbbError } from '../../core/model/errors.ts'
import type { Caller } from '../../tasks/types.ts'
import type { Asking } from '../mcp/asking.ts'
import type { McpEndpoint } from '../mcp/endpoint.ts'
import { cwdHeader, mcpPath } from '../mcp/wire.ts'
import { type Access, bearerOf } from './access.ts'
import { read } from './route.ts'
import { namespaceName } from './schemas.ts'

export interface McpEndpointRoutesDeps {
  readonly control: Control
  readonly access: Access
  readonly version: string
  readonly home: string
}

const headers = z.object({
  'X-Ebb-Namespace': namespaceName.optional(),
  [cwdHeader]: z
    .string()
    .max(12_288)
    .transform((text, context) => {
      try {
        return decodeURIComponent(text)
      } catch {
        context.addIssue('percent-encoded')
        return z.NEVER
      }
    })
    .pipe(
      z
        .string()
        .max(4_096)
        .regex(/^\/[^\0]*$/, 'must be an absolute path'),
    )
    .optional(),
})

/** `/mcp` of the server. What speaks MCP is loaded by the first who asks for it. */
export class McpEndpointRoutes {
  readonly #deps: McpEndpointRoutesDeps
  readonly #callers = new WeakMap<FastifyRequest, Caller>()
  #endpoint: Promise<McpEndpoint> | undefined
  #isClosed = false

  constructor(deps: McpEndpointRoutesDeps) {
    this.#deps = deps
  }

  /** Its callers have tokens of their own: the app leaves the question of the token to `callerOf`. */
  mount(app: FastifyInstance): void {
    app.register(async (scope) => {
      scope.removeAllContentTypeParsers()
      // Whatever it is: that it should be JSON is said in the protocol's own words.
      scope.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, done) => done(null, body))
      // Before a body is read.
      scope.addHook('onRequest', async (request) => void this.#callers.set(request, await this.#callerOf(request)))
      scope.route({
        method: ['GET', 'POST', 'DELETE'],
        url: mcpPath,
        exposeHeadRoute: false,
        handler: (request, reply) => this.#answer(request, reply),
      })
    })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await (await this.#endpoint)?.close()
  }

  async #answer(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const asking = this.#asking(request)
    this.#endpoint ??= this.#load()
    const endpoint = await this.#endpoint
    if (this.#isClosed) throw new EbbError('server_unreachable', 'The server is leaving.')
    const gone = new AbortController()
    const closed = new Promise<void>((resolve) => {
      reply.raw.once('close', () => {
        if (!reply.raw.writableFinished) gone.abort()
        resolve()
      })
    })
    const text = request.method === 'POST' ? String(request.body ?? '') : undefined
    const exchange = new Request(`http://ebb${mcpPath}`, {
      method: request.method,
      headers: headersOf(request),
      signal: gone.signal,
      ...(text !== undefined && { body: text }),
    })
    reply.send(await endpoint.handle({ request: exchange, text, asking, closed }))
    // A stream may have nothing to say for long; that it is open is news already.
    reply.raw.flushHeaders()
    return reply
  }

  async #load(): Promise<McpEndpoint> {
    const { McpEndpoint } = await import('../mcp/endpoint.ts')
    const { control, version, home } = this.#deps
    return new McpEndpoint({ control, version, home })
  }

  #asking(request: FastifyRequest): Asking {
    const said = read(
      headers,
      { 'X-Ebb-Namespace': request.headers['x-ebb-namespace'], [cwdHeader]: request.headers[cwdHeader.toLowerCase()] },
      'header',
    ) as z.output<typeof headers>
    const namespace = said['X-Ebb-Namespace']
    const cwd = said[cwdHeader]
    const caller = this.#callers.get(request)
    if (!caller) throw new Error('Nobody has asked who calls.')
    // An agent is in the namespace of its task, whatever the settings of its machine say.
    const isNamed = namespace !== undefined && caller === 'orchestrator'
    return { caller, ...(isNamed && { namespace }), ...(cwd !== undefined && { cwd }) }
  }

  /** Whoever shows the server's token, or needs none; or the agent whose own token it is. */
  async #callerOf({ headers: { authorization } }: FastifyRequest): Promise<Caller> {
    const { access, control } = this.#deps
    const shown = bearerOf(authorization)
    if (shown === undefined) {
      access.requireToken(undefined)
      return 'orchestrator'
    }
    if (access.isToken(shown)) return 'orchestrator'
    const agent = await control.tasks.callerOf(shown)
    if (!agent)
      throw new EbbError('unauthorized', "This token is neither the one of the server nor of an agent that runs; an agent's ends with it.")
    return agent
  }
}

function headersOf({ headers }: FastifyRequest): Headers {
  const pairs = Object.entries(headers).flatMap(([name, value]) => [value ?? []].flat().map((one): [string, string] => [name, one]))
  return new Headers(pairs)
}
