import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import {
  type ConnectionError,
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  fastify,
  LogController,
} from 'fastify'
import { z } from 'zod'
import type { Control } from '../../control.ts'
import { EbbError, type ErrorCode, errorTable } from '../../core/model/errors.ts'
import type { ProviderCatalogue } from '../../core/ports/provider.ts'
import { mcpPath } from '../mcp/wire.ts'
import { mountRunner, type RunnerDeps } from '../runner/routes.ts'
import { type Access, bearerOf } from './access.ts'
import { dashboardPaths, mountDashboard } from './dashboard.ts'
import type { McpEndpointRoutes } from './mcp-endpoint-routes.ts'
import { openApi } from './openapi.ts'
import { type Route, read } from './route.ts'
import { agentRoutes } from './routes/agents.ts'
import { cleanupRoutes } from './routes/cleanup.ts'
import { requestRoutes } from './routes/requests.ts'
import { serverRoutes, type Vitals } from './routes/server.ts'
import { testRoutes } from './routes/test.ts'
import { namespaceName } from './schemas.ts'

export interface AppDeps {
  readonly control: Control
  readonly catalogue: ProviderCatalogue
  readonly access: Access
  readonly vitals: Vitals
  readonly hasTestRoutes: boolean
  readonly version: string
  readonly logger: FastifyBaseLogger
  /** Content type and text of `/metrics`. */
  readonly metrics: () => Promise<{ readonly type: string; readonly text: string }>
  readonly mcp: McpEndpointRoutes
  /** The folder with the built dashboard. */
  readonly dashboard?: string
  /** The dependencies of the runner, when the server is also a runner host. */
  readonly runner?: RunnerDeps
}

const bodyBytes = 1_048_576

/** The time in which a request must arrive, from its first byte to the end of its body. It does not limit the answer. */
const requestMs = 120_000

/** The HTTP interface (docs/reference/http.md): every route is validated by its own schema, and all errors have one shape. */
export function createApp(deps: AppDeps): FastifyInstance {
  const { control, catalogue, access, vitals } = deps
  const app = fastify({
    loggerInstance: deps.logger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: bodyBytes,
    // A long id must reach its route, which answers 400 `invalid_id`, not 404. Node limits the length of the whole address.
    routerOptions: { maxParamLength: 65_536 },
    forceCloseConnections: true,
    requestTimeout: requestMs,
    http: {
      // `Access` refuses a request without Host, with Ebb's error shape.
      requireHostHeader: false,
      // Java and curl offer an upgrade to HTTP/2 with every request. The offer is ignored, and the request is answered.
      shouldUpgradeCallback: ({ url, headers }) =>
        url?.startsWith('/socket.io/') === true && headers.upgrade?.toLowerCase() === 'websocket',
    },
    frameworkErrors: (error, request, reply) => answerError(refusalOf(access, request) ?? error, request, reply),
    clientErrorHandler: answerUnreadable,
  })
  app.removeAllContentTypeParsers()
  const parseJson = app.getDefaultJsonParser('error', 'error')
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    // Many clients send the content type of JSON and no body. Such a request counts as one without a body.
    if (body === '') done(null, undefined)
    else parseJson(request, body as string, done)
  })
  app.addHook('onRequest', async (request, reply) => {
    access.requireKnownCaller(request.raw)
    // The content type of an empty body is dropped, because `curl -d ''` sends the type of a form, which would be refused.
    if (isEmpty(request.raw)) delete request.raw.headers['content-type']
    const sharing = access.sharing(request.raw)
    if (sharing) reply.headers(sharing)
    // A CORS preflight request is answered here.
    if (sharing && request.method === 'OPTIONS') return reply.code(204).send()
    if (!isOpen(request.routeOptions.url)) access.requireToken(bearerOf(request.headers.authorization))
    return undefined
  })
  app.setErrorHandler((error: FastifyError, request, reply) => answerError(error, request, reply))
  app.setNotFoundHandler(async (request) => {
    throw new EbbError('not_found', `There is no ${request.method} ${request.url.split('?')[0] ?? ''}; /api/openapi.json lists the routes.`)
  })

  const routes = [
    ...serverRoutes(control, catalogue, vitals),
    ...agentRoutes(control, vitals.containment),
    ...requestRoutes(control),
    ...cleanupRoutes(control),
    ...(deps.hasTestRoutes ? testRoutes(control) : []),
  ]
  for (const route of routes) addRoute(app, route)
  const document = openApi(routes, deps.version)
  app.get('/api/openapi.json', async () => document)
  app.get('/metrics', async (_request, reply) => {
    const { type, text } = await deps.metrics()
    return await reply.type(type).send(text)
  })
  deps.mcp.mount(app)
  if (deps.dashboard !== undefined) mountDashboard(app, deps.dashboard)
  if (deps.runner) mountRunner(app, deps.runner)
  return app
}

function isEmpty({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] === undefined && (headers['content-length'] ?? '0') === '0'
}

/** Whether a route works without the server's token: agents call `/mcp` with tokens of their own, and the dashboard asks for the token. */
function isOpen(route: string | undefined): boolean {
  return route !== undefined && (route === mcpPath || dashboardPaths.includes(route))
}

function addRoute(app: FastifyInstance, route: Route): void {
  const status = Number(Object.keys(route.answers)[0])
  app.route({
    method: route.method,
    url: `/api${route.path.replaceAll(/\{(\w+)\}/g, ':$1')}`,
    ...(route.bodyLimit !== undefined && { bodyLimit: route.bodyLimit }),
    handler: async (request, reply) => {
      const query = read(route.query, request.query, 'query')
      const call = {
        params: read(route.params, request.params, 'id'),
        query,
        body: read(route.body, request.body, 'body'),
        namespace: namespaceOf(query, request),
        reply,
      }
      reply.code(status)
      const answer = await route.handle(call)
      return answer === undefined ? reply.send() : answer
    },
  })
}

/** The header with the namespace, as a field of an object, so that a validation error names the header. */
const namespaceHeader = z.object({ 'X-Ebb-Namespace': namespaceName.optional() })

function namespaceOf(query: unknown, request: FastifyRequest): string | undefined {
  const inQuery = (query as { readonly namespace?: string } | undefined)?.namespace
  if (inQuery !== undefined) return inQuery
  const header = read(namespaceHeader, { 'X-Ebb-Namespace': request.headers['x-ebb-namespace'] }, 'header')
  return (header as z.output<typeof namespaceHeader>)['X-Ebb-Namespace']
}

/** Checks the access of a request whose address cannot be decoded: Fastify runs no hooks for it. */
function refusalOf(access: Access, { raw, headers }: FastifyRequest): EbbError | undefined {
  try {
    access.requireKnownCaller(raw)
    access.requireToken(bearerOf(headers.authorization))
    return undefined
  } catch (error) {
    return error as EbbError
  }
}

function answerError(error: FastifyError | EbbError, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const known = error instanceof EbbError ? error : fromFastify(error)
  const { status } = errorTable[known.code]
  if (known.code === 'internal') request.log.error({ err: error }, 'A request failed with an internal error.')
  return reply
    .code(status)
    .type('application/json; charset=utf-8')
    .send({ statusCode: status, code: known.code, message: known.message, ...(known.details !== undefined && { details: known.details }) })
}

function fromFastify(error: FastifyError): EbbError {
  if (error.statusCode === 413) return new EbbError('too_large', 'The body is larger than this route accepts.')
  if (error.statusCode === 415) return new EbbError('unsupported_media', 'The body must be JSON, with "Content-Type: application/json".')
  if (error.statusCode !== undefined && error.statusCode < 500)
    return new EbbError('invalid_request', `The request cannot be read: ${error.message.replace(/\.$/, '')}.`, {
      details: [{ path: '', message: error.message }],
    })
  return new EbbError('internal', 'The server failed with an internal error; its log has the cause.')
}

const unreadable: Readonly<Record<string, readonly [code: ErrorCode, name: string, why: string]>> = {
  HPE_HEADER_OVERFLOW: [
    'headers_too_large',
    'Request Header Fields Too Large',
    'The address and the headers are longer than 16 kB together.',
  ],
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'Request Timeout', 'The request did not arrive completely in time.'],
}

/** Answers a connection whose bytes are not a valid HTTP request, so there is no request object. */
function answerUnreadable(error: ConnectionError, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const [code, name, message] = unreadable[error.code] ?? (['invalid_request', 'Bad Request', 'This is not an HTTP request.'] as const)
  const { status } = errorTable[code]
  const body = JSON.stringify({ statusCode: status, code, message })
  const head = `Connection: close\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${body.length}`
  socket.write(`HTTP/1.1 ${status} ${name}\r\n${head}\r\n\r\n${body}`)
  socket.destroySoon()
}
