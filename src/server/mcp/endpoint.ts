import { randomUUID } from 'node:crypto'
import {
  createMcpHandler,
  isInitializeRequest,
  isLegacyRequest,
  type McpHttpHandler,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'
import type { Asking } from './asking.ts'
import { createMcpServer, type McpDeps } from './server.ts'
import { Sessions } from './sessions.ts'

/** An HTTP request at `/mcp`, as objects of the web standards. */
export interface McpExchange {
  readonly request: Request
  /** The body of a POST. */
  readonly text: string | undefined
  readonly asking: Asking
  /** Resolves when the connection is closed. */
  readonly closed: Promise<void>
}

/**
 * MCP over Streamable HTTP. Clients of the 2025 revisions open a session and name it in each call. Clients of revision 2026-07-28
 * have no session, and identify themselves in each call.
 */
export class McpEndpoint {
  readonly #deps: McpDeps
  readonly #sessions: Sessions
  readonly #modern: McpHttpHandler

  constructor(deps: McpDeps) {
    this.#deps = deps
    const { clock, events } = deps.control
    this.#sessions = new Sessions(clock)
    this.#modern = createMcpHandler(({ authInfo }) => createMcpServer(deps, authInfo?.extra?.asking as Asking), { legacy: 'reject' })
    for (const end of ['terminated', 'deleted'] as const) events.on(end, ({ agentId }) => this.#sessions.endOf(agentId))
  }

  async handle({ request, text, asking, closed }: McpExchange): Promise<Response> {
    let body: unknown
    try {
      body = text === undefined ? undefined : JSON.parse(text)
    } catch {
      return refusal(400, -32_700, 'Parse error: the body is not JSON.')
    }
    if (!(await isLegacyRequest(request, body))) {
      const authInfo = { token: '', clientId: '', scopes: [], extra: { asking } }
      return await this.#modern.fetch(request, { parsedBody: body, authInfo })
    }
    const id = request.headers.get('mcp-session-id')
    if (id === null) return await this.#open(request, body, asking, closed)
    const session = this.#sessions.find(id, asking.caller)
    if (!session) return refusal(404, -32_001, 'Session not found: begin a new one with "initialize".')
    this.#sessions.use(id, request.method === 'GET' ? 'streams' : 'calls', closed)
    return await session.transport.handleRequest(request, { parsedBody: body })
  }

  async #open(request: Request, body: unknown, asking: Asking, closed: Promise<void>): Promise<Response> {
    if (request.method !== 'POST' || !isInitializeRequest(body))
      return refusal(400, -32_000, 'The header Mcp-Session-Id is missing: begin a session with "initialize".')
    if (!this.#sessions.hasRoom()) return refusal(503, -32_000, 'Too many clients wait for answers; try again later.')
    const server = createMcpServer(this.#deps, asking)
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => {
        this.#sessions.add({ id, caller: asking.caller, server, transport })
        this.#sessions.use(id, 'calls', closed)
      },
    })
    await server.connect(transport)
    server.server.onclose = () => this.#sessions.remove(transport.sessionId ?? '')
    const response = await transport.handleRequest(request, { parsedBody: body })
    // A transport without a session id has refused the request, so there is no session.
    if (transport.sessionId === undefined) await server.close()
    return response
  }

  /** Ends all sessions and streams. A close that a tool began goes on. */
  async close(): Promise<void> {
    this.#sessions.close()
    await this.#modern.close()
  }
}

function refusal(status: number, code: number, message: string): Response {
  return Response.json({ jsonrpc: '2.0', error: { code, message }, id: null }, { status })
}
