import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { ebb, temporaryHome } from '../../support/home.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'

/** A client that sends all its requests at once and closes its end without waiting. Every request that was read is answered. */

const line = (message: object): string => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`
const hello = line({
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'hasty', version: '1' } },
})
const call = (id: number, name: string, args: object): string => line({ id, method: 'tools/call', params: { name, arguments: args } })

async function served(engine: string): Promise<TestServer | undefined> {
  return engine === 'a bridge' ? await startServer() : undefined
}

it.each(['an engine of its own', 'a bridge'])('ebb mcp with %s answers every request before it exits', async (engine) => {
  await using server = await served(engine)
  const home = server?.home ?? temporaryHome()
  const workspace_base = temporaryHome()
  const create = (id: number): string => call(id, 'create_real_task', { description: `Task ${id}`, workspace_base })
  const input = [hello, line({ method: 'notifications/initialized' }), create(1), line({ id: 2, method: 'tools/list' }), create(3)]
  const { code, stdout, stderr } = await ebb(['mcp'], { home, cwd: home, input: input.join('') })
  const answers: Json[] = stdout
    .toString()
    .split('\n')
    .filter(Boolean)
    .map((text) => JSON.parse(text))
  expect({ code, stderr, ids: answers.map(({ id }) => id).toSorted() }).toEqual({ code: 0, stderr: '', ids: [0, 1, 2, 3] })
  for (const id of [1, 3])
    expect(answers.find((one) => one.id === id).result?.structuredContent).toMatchObject({ success: true, description: `Task ${id}` })
})

it('ebb mcp waits at most five seconds for a server that does not answer', async () => {
  const silent = createServer((call, answer) => (call.method === 'GET' ? answer.end('{"status":"ok","pid":1}') : undefined))
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  try {
    const { port } = silent.address() as AddressInfo
    const beginMs = performance.now()
    const run = await ebb(['mcp', '--url', `http://127.0.0.1:${port}`], { home: temporaryHome(), input: hello })
    expect(run).toMatchObject({ code: 0, stdout: Buffer.from('') })
    expect(performance.now() - beginMs).toBeGreaterThan(5_000)
  } finally {
    silent.closeAllConnections()
    silent.close()
  }
})
