import { expect, it } from 'vitest'
import type { Control } from '../../../../src/control.ts'
import { createMcpServer } from '../../../../src/server/mcp/server.ts'
import { tools } from '../../../../src/server/mcp/tools/all.ts'
import type { Caller } from '../../../../src/tasks/types.ts'
import { mcpOf } from '../../../support/mcp.ts'

/** The control plane fails every call, so a call that reaches it answers `internal`. */
const refuseAll = new Proxy({}, { get: () => () => Promise.reject(new Error('reached')) })
const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const control = { tasks: refuseAll, cleanup: refuseAll, log } as unknown as Control

/** Values for the required arguments of all tools. */
const required = {
  description: 'd',
  task_id: 't',
  agent_id: 'a',
  agent_type: 'a',
  prompt: 'p',
  parent_agent_id: 'a',
  child_agent_type: 'a',
  child_prompt: 'p',
  status: 's',
  message: 'm',
  finding_type: 'f',
  severity: 's',
}

async function codesFor(caller: Caller): Promise<Readonly<Record<string, string>>> {
  await using mcp = await mcpOf(createMcpServer({ control, version: '1' }, { caller, cwd: '/' }))
  const codes = await Promise.all(tools.map(async ({ name }) => [name, (await mcp.call(name, required)).code] as const))
  return Object.fromEntries(codes)
}

it('tools: the orchestrator may call each tool, and an agent each but those for the orchestrator', async () => {
  const all = tools.map(({ name }) => [name, 'internal'])
  expect(await codesFor('orchestrator')).toEqual(Object.fromEntries(all))
  const refused = { create_real_task: 'forbidden', complete_real_task: 'forbidden', get_cleanup_status: 'forbidden' }
  expect(await codesFor({ agentId: '6f0f7a2e-9c60-4f6a-9d3c-2f7f0f8f6a11' })).toEqual({ ...Object.fromEntries(all), ...refused })
})
