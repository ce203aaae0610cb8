import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

/**
 * A real MCP server, as small as one can be, that does not end when its input does, with a child: as servers do that keep
 * a browser, a language server or a connection pool. Its first argument is the file by which it says that it was greeted.
 */
const [sign = ''] = process.argv.slice(2)

const child = spawn('sleep', ['300'], { stdio: 'ignore', env: { ...process.env, LINGERING: sign } })
// A failing benchmark must not litter the machine.
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
    writeFileSync(sign, String(child.pid))
    return { tools: [{ name: 'wait', description: 'Waits.', inputSchema: { type: 'object', properties: {} } }] }
  },
}

createInterface(process.stdin).on('line', (line) => {
  const request = JSON.parse(line) as Request
  if (request.id === undefined) return
  const result = results[request.method]?.(request) ?? {}
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id: request.id, result })}\n`)
})
process.stdout.on('error', () => {})
