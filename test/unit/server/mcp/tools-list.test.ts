import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { InMemoryTransport, type JSONRPCMessage, type JSONRPCRequest } from '@modelcontextprotocol/client'
import { expect, it } from 'vitest'
import type { Control } from '../../../../src/control.ts'
import { createMcpServer } from '../../../../src/server/mcp/server.ts'
import { root } from '../../../support/home.ts'

/** The answer to `tools/list` is what a client knows of the tools. Clients have it in their caches, and models were prompted with it. */

/** A listing calls nothing of the control plane. */
const control = {} as Control

it('tools/list: names, order, descriptions, schemas and annotations are those of the golden file, byte for byte', async () => {
  const server = createMcpServer({ control, version: '1' }, { caller: 'orchestrator' })
  const [near, far] = InMemoryTransport.createLinkedPair()
  await server.connect(far)
  const ask = (method: string, params: JSONRPCRequest['params']): Promise<JSONRPCMessage> =>
    new Promise((resolve, reject) => {
      near.onmessage = resolve
      near.send({ jsonrpc: '2.0', id: 1, method, ...(params && { params }) }).catch(reject)
    })
  const about = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'ebb-tests', version: '1' } }
  await ask('initialize', about)
  const answer = (await ask('tools/list', {})) as { readonly result?: { readonly tools: readonly object[] } }
  await server.close()
  const golden = readFileSync(join(root, 'test', 'fixtures', 'golden', 'mcp-tools.json'), 'utf8')
  expect(`${JSON.stringify(answer.result?.tools, null, 2)}\n`).toBe(golden)
})
