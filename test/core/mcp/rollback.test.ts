import { expect, it } from 'vitest'
import { createMcpServer } from '../../../src/server/mcp/server.ts'
import { hookOn } from '../../support/hooked.ts'
import { mcpOf } from '../../support/mcp.ts'
import { openTasks } from '../../support/tasks.ts'

it('deploy_headless_agent: a rollback that is not proven answers cleanup_performed false, with the report', async () => {
  let isBroken = true
  const wrap = hookOn('effects', (method, [path]) => {
    if (!isBroken) return
    if (method === 'spawn') throw new Error('no process for you')
    if (/unlink|rename|discard/.test(method) && String(path).includes('agent_prompt_'))
      throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })
  })
  await using bench = await openTasks({ wrap })
  const { control, base } = bench
  await using mcp = await mcpOf(createMcpServer({ control, version: '1' }, { caller: 'orchestrator', cwd: base }))
  const { task_id } = await mcp.call('create_real_task', { description: 'Broken' })
  const agent = { task_id, agent_type: 'a', prompt: 'p', provider: 'command', placement: 'process', command: ['sleep', '1000'] }
  const failed = await mcp.call('deploy_headless_agent', agent)
  expect(failed).toMatchObject({ success: false, cleanup_performed: false, code: 'launch_failed', report: { success: false } })
  const stuck = failed.report.resources.filter(({ outcome }: { outcome: string }) => outcome === 'stuck')
  expect(stuck).toMatchObject([{ kind: 'file', error: expect.stringMatching(/EIO/) }])
  const status = await mcp.call('get_cleanup_status')
  isBroken = false
  expect(failed.error).toMatch(
    /^The launch failed: EIO: i\/o error\. Not everything it had created could be removed; "ebb status" lists what is left\.$/,
  )
  expect(status).toMatchObject({ isClean: false, stuck: [expect.stringMatching(/agent_prompt_/)] })
  expect(await mcp.call('complete_real_task', { task_id })).toMatchObject({ success: true })
  expect(bench.files()).toEqual([])
})
