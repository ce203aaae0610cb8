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

/** The route `/mcp` of the server. The MCP code is loaded at the first call. */
export class McpEndpointRoutes {
  readonly #deps: McpEndpointRoutesDeps
  readonly #callers = new WeakMap<FastifyRequest, Caller>()
  #endpoint: Promise<McpEndpoint> | undefined
  #isClosed = false

  constructor(deps: McpEndpointRoutesDeps) {
    this.#deps = deps
  }

  /** Adds the route. The app does not check its token: agents have tokens of their own, which `#callerOf` checks. */
  mount(app: FastifyInstance): void {
    app.register(async (scope) => {
      scope.removeAllContentTypeParsers()
      // Any content type is read as text: the endpoint answers a body that is not JSON with an error of the protocol.
      scope.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, done) => done(null, body))
      // The caller is identified before the body is read.
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
    if (this.#isClosed) throw new EbbError('server_unreachable', 'The server is shutting down; call again when it is running.')
    const hungUp = new AbortController()
    const closed = new Promise<void>((resolve) => {
      reply.raw.once('close', () => {
        if (!reply.raw.writableFinished) hungUp.abort()
        resolve()
      })
    })
    const text = request.method === 'POST' ? String(request.body ?? '') : undefined
    const exchange = new Request(`http://ebb${mcpPath}`, {
      method: request.method,
      headers: headersOf(request),
      signal: hungUp.signal,
      ...(text !== undefined && { body: text }),
    })
    reply.send(await endpoint.handle({ request: exchange, text, asking, closed }))
    // The headers are sent at once. A stream may stay empty for long, and its client waits for the headers.
    reply.raw.flushHeaders()
    return reply
  }

  async #load(): Promise<McpEndpoint> {
    const { McpEndpoint } = await import('../mcp/endpoint.ts')
    const { control, version } = this.#deps
    return new McpEndpoint({ control, version })
  }

  #asking(request: FastifyRequest): Asking {
    const given = read(
      headers,
      { 'X-Ebb-Namespace': request.headers['x-ebb-namespace'], [cwdHeader]: request.headers[cwdHeader.toLowerCase()] },
      'header',
    ) as z.output<typeof headers>
    const namespace = given['X-Ebb-Namespace']
    const cwd = given[cwdHeader]
    const caller = this.#callers.get(request)
    if (!caller) throw new Error('The caller of this request was not identified.')
    // An agent is in the namespace of its task; the header of its client does not count.
    const isNamed = namespace !== undefined && caller === 'orchestrator'
    return { caller, ...(isNamed && { namespace }), ...(cwd !== undefined && { cwd }) }
  }

  /** The caller: the agent that has the token of the request, else the orchestrator, which needs the server's token if there is one. */
  async #callerOf({ headers: { authorization } }: FastifyRequest): Promise<Caller> {
    const { access, control } = this.#deps
    const token = bearerOf(authorization)
    if (token === undefined) {
      access.requireToken(undefined)
      return 'orchestrator'
    }
    if (access.isToken(token)) return 'orchestrator'
    const agent = await control.tasks.callerOf(token)
    if (!agent)
      throw new EbbError(
        'unauthorized',
        "The token is neither the server's nor that of a running agent; the token of an agent ends with the agent.",
      )
    return agent
  }
}

function headersOf({ headers }: FastifyRequest): Headers {
  const pairs = Object.entries(headers).flatMap(([name, value]) => [value ?? []].flat().map((text): [string, string] => [name, text]))
  return new Headers(pairs)
}
