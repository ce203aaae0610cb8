import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

/**
 * A minimal real MCP server with a child. It does not exit at the end of its input, like servers that keep a browser, a language server or a
 * connection pool. It creates the file that its first argument names when a client has listed its tools.
 */
const [readyFile = ''] = process.argv.slice(2)

const child = spawn('sleep', ['300'], { stdio: 'ignore', env: { ...process.env, LINGERING: readyFile } })
// Exits by itself, in case the benchmark fails to end it.
setTimeout(() => process.exit(0), 300_000)

interface Request {
  readonly id?: number | string
  readonly method: string
  readonly params?: { readonly protocolVersion?: string }
}

const results: Readonly<Record<string, (request: Request) => unknown>> = {
  initialize: ({ params }) => ({
    protocolVersion: params?.protocolVersion ?? '2025-06-18',
    capabilities: { tools: {} },
    serverInfo: { name: 'lingering', version: '1' },
  }),
  'tools/list': () => {
    writeFileSync(readyFile, String(child.pid))
    return { tools: [{ name: 'wait', description: 'Waits.', inputSchema: { type: 'object', properties: {} } }] }
  },
}

createInterface(process.stdin).on('line', (line) => {
  const request = JSON.parse(line) as Request
  if (request.id === undefined) return
  const result = results[request.method]?.(request) ?? {}
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id: request.id, result })}\n`)
})
// The client may have closed the pipe. This server must stay alive, so the error is ignored.
process.stdout.on('error', () => {})
