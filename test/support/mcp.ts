import { Client, type ClientOptions, InMemoryTransport, StreamableHTTPClientTransport, type Transport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/client/validators/ajv'
import type { McpServer } from '@modelcontextprotocol/server'
import { ebbProgram } from './home.ts'
import { currentMark, markVariable } from './mark.ts'
import type { Json } from './server.ts'

/** The official MCP client, connected to a real server over HTTP, or over stdio to a child process as a client starts it. */

export interface McpClient extends AsyncDisposable {
  readonly client: Client
  /** Returns the structured answer. Fails when the text content differs from it. */
  call(name: string, args?: object, options?: CallOptions): Promise<Json>
  /** The pid of the child process; 0 without one. */
  readonly pid: number
  readonly errorOutput: () => string
  /** All progress notifications for calls with an `onprogress`, including those that `onprogress` itself misses. */
  readonly progress: readonly Json[]
  close(): Promise<void>
}

export interface CallOptions {
  readonly signal?: AbortSignal
  readonly onprogress?: (progress: Json) => void
}

const about = { name: 'ebb-tests', version: '1.0.0' }
const revision2026: ClientOptions = { versionNegotiation: { mode: { pin: '2026-07-28' } } }

export interface HttpOptions {
  readonly token?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly is2026?: boolean
}

export async function mcpOverHttp(url: string, { token, headers = {}, is2026 = false }: HttpOptions = {}): Promise<McpClient> {
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const transport = new StreamableHTTPClientTransport(new URL('/mcp', url), { requestInit: { headers: { ...headers, ...authorization } } })
  const client = new Client(about, is2026 ? revision2026 : {})
  const progress = progressOn(transport)
  await client.connect(transport)
  const close = async (): Promise<void> => {
    await transport.terminateSession()
    await client.close()
  }
  return { client, call: caller(client), pid: 0, errorOutput: () => '', progress, close, [Symbol.asyncDispose]: close }
}

export interface StdioOptions {
  readonly home: string
  readonly words?: readonly string[]
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  readonly is2026?: boolean
}

export async function mcpOverStdio({ home, words = [], cwd, env = {}, is2026 = false }: StdioOptions): Promise<McpClient> {
  const transport = new StdioClientTransport({
    command: ebbProgram,
    args: ['mcp', ...words],
    env: { ...(process.env as Record<string, string>), EBB_HOME: home, [markVariable]: currentMark(), ...env },
    stderr: 'pipe',
    ...(cwd !== undefined && { cwd }),
  })
  const output: Buffer[] = []
  transport.stderr?.on('data', (chunk: Buffer) => output.push(chunk))
  const client = new Client(about, is2026 ? revision2026 : {})
  const progress = progressOn(transport)
  await client.connect(transport)
  const close = (): Promise<void> => client.close()
  return {
    client,
    call: caller(client),
    pid: transport.pid ?? 0,
    errorOutput: () => Buffer.concat(output).toString('utf8'),
    progress,
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Connects to an MCP server in this process, for faults that only code in this process can inject. */
export async function mcpOf(server: McpServer): Promise<McpClient> {
  const [near, far] = InMemoryTransport.createLinkedPair()
  const client = new Client(about)
  await server.connect(far)
  const progress = progressOn(near)
  await client.connect(near)
  const close = (): Promise<void> => client.close()
  return { client, call: caller(client), pid: 0, errorOutput: () => '', progress, close, [Symbol.asyncDispose]: close }
}

/**
 * Collects all progress notifications with a handler that is set before the client connects. The client's own `onprogress` misses a step
 * that arrives together with the answer.
 */
function progressOn(transport: Transport): readonly Json[] {
  const received: Json[] = []
  transport.onmessage = (message) => {
    if ('method' in message && message.method === 'notifications/progress') received.push(message.params)
  }
  return received
}

const patienceMs = 30_000

function caller(client: Client): McpClient['call'] {
  const requireFit = fitting(client)
  return async (name, args = {}, options = {}) => {
    const result = await client.callTool({ name, arguments: { ...args } }, { timeout: patienceMs, ...options })
    const [content] = result.content as readonly { readonly type: string; readonly text?: string }[]
    const { structuredContent } = result
    if (structuredContent === undefined) throw new Error(`The answer has no structuredContent, only text: ${content?.text}`)
    if (JSON.stringify(structuredContent) !== content?.text)
      throw new Error(`The text content differs from structuredContent: ${content?.text}`)
    const { success } = structuredContent as { readonly success?: boolean }
    if ((result.isError === true) !== (success === false)) throw new Error(`isError is ${result.isError}: ${content?.text}`)
    await requireFit(name, structuredContent)
    return structuredContent
  }
}

/** Checks each answer against the tool's outputSchema, as clients of the first SDK do. Failures must fit it too. */
function fitting(client: Client): (name: string, answer: unknown) => Promise<void> {
  let listing: ReturnType<Client['listTools']> | undefined
  return async (name, answer) => {
    listing ??= client.listTools()
    const schema = (await listing).tools.find((tool) => tool.name === name)?.outputSchema
    if (!schema) throw new Error(`${name} has no outputSchema.`)
    const { valid, errorMessage } = new AjvJsonSchemaValidator().getValidator(schema as { $schema: string })(answer)
    if (!valid) throw new Error(`${name} returned an answer that does not fit its outputSchema: ${errorMessage}: ${JSON.stringify(answer)}`)
  }
}
