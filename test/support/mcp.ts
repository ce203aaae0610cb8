import { Client, type ClientOptions, InMemoryTransport, StreamableHTTPClientTransport, type Transport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/client/validators/ajv'
import type { McpServer } from '@modelcontextprotocol/server'
import { ebbProgram } from './home.ts'
import { currentMark, markVariable } from './mark.ts'
import type { Json } from './server.ts'

/** The official MCP client against a real server, over HTTP or as the child process that a client starts. */

export interface McpClient extends AsyncDisposable {
  readonly client: Client
  /** The structured answer; it must be there as text too, the same. */
  call(name: string, args?: object, options?: CallOptions): Promise<Json>
  /** Of the process that it started. */
  readonly pid: number
  readonly errorOutput: () => string
  /** Every step that was told, of all calls that asked for it with an `onprogress`, whether that heard it or not. */
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
  const said: Buffer[] = []
  transport.stderr?.on('data', (chunk: Buffer) => said.push(chunk))
  const client = new Client(about, is2026 ? revision2026 : {})
  const progress = progressOn(transport)
  await client.connect(transport)
  const close = (): Promise<void> => client.close()
  return {
    client,
    call: caller(client),
    pid: transport.pid ?? 0,
    errorOutput: () => Buffer.concat(said).toString('utf8'),
    progress,
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** A server in this very process: for faults that can only be made here. */
export async function mcpOf(server: McpServer): Promise<McpClient> {
  const [near, far] = InMemoryTransport.createLinkedPair()
  const client = new Client(about)
  await server.connect(far)
  const progress = progressOn(near)
  await client.connect(near)
  const close = (): Promise<void> => client.close()
  return { client, call: caller(client), pid: 0, errorOutput: () => '', progress, close, [Symbol.asyncDispose]: close }
}

/** Who listens before the client connects hears everything; its own listeners miss a step that comes together with the answer. */
function progressOn(transport: Transport): readonly Json[] {
  const told: Json[] = []
  transport.onmessage = (message) => {
    if ('method' in message && message.method === 'notifications/progress') told.push(message.params)
  }
  return told
}

const patienceMs = 30_000

function caller(client: Client): McpClient['call'] {
  const requireFit = fitting(client)
  return async (name, args = {}, options = {}) => {
    const result = await client.callTool({ name, arguments: { ...args } }, { timeout: patienceMs, ...options })
    const [content] = result.content as readonly { readonly type: string; readonly text?: string }[]
    const { structuredContent } = result
    if (structuredContent === undefined) throw new Error(`The answer is words alone: ${content?.text}`)
    if (JSON.stringify(structuredContent) !== content?.text) throw new Error(`The text says something else: ${content?.text}`)
    const { success } = structuredContent as { readonly success?: boolean }
    if ((result.isError === true) !== (success === false)) throw new Error(`isError is ${result.isError}: ${content?.text}`)
    await requireFit(name, structuredContent)
    return structuredContent
  }
}

/** As clients of the first SDK do it: also a failure has to fit what the tool says that it answers. */
function fitting(client: Client): (name: string, answer: unknown) => Promise<void> {
  let listing: ReturnType<Client['listTools']> | undefined
  return async (name, answer) => {
    listing ??= client.listTools()
    const schema = (await listing).tools.find((tool) => tool.name === name)?.outputSchema
    if (!schema) throw new Error(`${name} does not say what it answers.`)
    const { valid, errorMessage } = new AjvJsonSchemaValidator().getValidator(schema as { $schema: string })(answer)
    if (!valid) throw new Error(`${name} answers what does not fit its own schema: ${errorMessage}: ${JSON.stringify(answer)}`)
  }
}
