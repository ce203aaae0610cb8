import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { createMcpServer } from '../../../src/server/mcp/server.ts'
import { ebb, temporaryHome } from '../../support/home.ts'
import { type McpClient, mcpOf, mcpOverStdio } from '../../support/mcp.ts'
import { readOnly } from '../../support/mounts.ts'
import { needs } from '../../support/real.ts'
import type { Json } from '../../support/server.ts'
import { openTasks, type TaskBench } from '../../support/tasks.ts'
import { waitUntil } from '../../support/world.ts'

/** Workspaces in which nothing can be removed: every tool reports it, and the removal is done once it is possible. */

needs('root')

function mcpTo({ control, base }: TaskBench): Promise<McpClient> {
  return mcpOf(createMcpServer({ control, version: '1' }, { caller: 'orchestrator', cwd: base }))
}

/** Creates a task with one ended agent, whose log is archived. */
async function withEndedAgent(mcp: McpClient): Promise<{ task_id: string; workspace: string; agent_id: string; agent_uuid: string }> {
  const { task_id, workspace } = await mcp.call('create_real_task', { description: 'Soon read-only' })
  const { agent_id, agent_uuid } = await mcp.call('deploy_headless_agent', agentOf(task_id))
  const killed = await mcp.call('kill_real_agent', { task_id, agent_id })
  expect(killed).toMatchObject({ success: true, cleanup: { archived_files: [expect.stringContaining('/archive/')] } })
  return { task_id, workspace, agent_id, agent_uuid }
}

const agentOf = (task_id: string): Json => ({
  ...{ task_id, agent_type: 'a', prompt: 'p' },
  ...{ provider: 'command', placement: 'process', command: ['sh', '-c', 'echo hello; exec sleep 1000'] },
})

it('read-only workspace: a cleanup that cannot delete the archive fails with a full report, and is finished once it can', async () => {
  await using bench = await openTasks()
  await using mcp = await mcpTo(bench)
  const { task_id, workspace, agent_id, agent_uuid } = await withEndedAgent(mcp)
  const archive = join(workspace, 'archive')
  const cleanup = { task_id, agent_id, keep_logs: false }
  {
    using _ = readOnly(workspace)
    const failed = await mcp.call('cleanup_agent_resources', cleanup)
    expect(failed).toMatchObject({
      success: false,
      tmux_session_killed: true,
      prompt_file_deleted: true,
      log_files_archived: true,
      verified_no_zombies: true,
      errors: [expect.stringMatching(/^archive of agent .*EROFS/)],
      archived_files: [expect.stringContaining('/archive/')],
      report: { success: false, scope: { kind: 'agent', id: agent_uuid } },
    })
    const killed = await mcp.call('kill_real_agent', { task_id, agent_id })
    expect(killed).toMatchObject({ success: false, cleanup: { success: false, errors: [expect.stringContaining('EROFS')] } })
    const { stuck } = await mcp.call('get_cleanup_status')
    expect(stuck).toEqual([expect.stringMatching(new RegExp(`^archive of agent ${agent_uuid}: .*EROFS`))])
    expect(await bench.control.agents.get(agent_uuid)).toMatchObject({ agent: { status: 'terminated' } })
    const completed = await mcp.call('complete_real_task', { task_id })
    expect(completed).toMatchObject({ success: false, report: { errors: [expect.stringContaining('EROFS')] } })
    expect(readdirSync(archive)).toHaveLength(1)
  }
  await bench.control.engine.reap({ dryRun: false })
  expect(existsSync(archive)).toBe(false)
  expect(await mcp.call('cleanup_agent_resources', cleanup)).toMatchObject({ success: true, errors: [], archived_files: [] })
  expect(await mcp.call('complete_real_task', { task_id })).toMatchObject({ success: true })
  expect(await mcp.call('get_cleanup_status')).toMatchObject({ stuck: [], heldBack: [], leaks: [] })
  expect(bench.files()).toEqual([])
})

it('read-only workspace: an archive left after its task was completed is deleted by the next cleanup', async () => {
  await using bench = await openTasks()
  await using mcp = await mcpTo(bench)
  const { task_id, workspace, agent_id } = await withEndedAgent(mcp)
  expect(await mcp.call('complete_real_task', { task_id })).toMatchObject({ success: true })
  const cleanup = { task_id, agent_id, keep_logs: false }
  {
    using _ = readOnly(workspace)
    expect(await mcp.call('cleanup_agent_resources', cleanup)).toMatchObject({ success: false, verified_no_zombies: true })
    expect((await mcp.call('get_cleanup_status')).stuck).toHaveLength(1)
  }
  expect(await mcp.call('cleanup_agent_resources', cleanup)).toMatchObject({ success: true, errors: [], archived_files: [] })
  expect((await mcp.call('get_cleanup_status')).stuck).toEqual([])
  expect(bench.files()).toEqual([])
})

it('read-only workspace: an archive left by a killed supervisor is deleted by the recovery', async () => {
  const [home, base] = [temporaryHome(), temporaryHome()]
  await using mcp = await mcpOverStdio({ home, cwd: base })
  const { task_id, workspace, agent_id } = await withEndedAgent(mcp)
  {
    using _ = readOnly(workspace)
    expect(await mcp.call('cleanup_agent_resources', { task_id, agent_id, keep_logs: false })).toMatchObject({ success: false })
    process.kill(mcp.pid, 'SIGKILL')
  }
  const archive = join(workspace, 'archive')
  const leftovers = async (): Promise<readonly unknown[]> => {
    await ebb(['recover'], { home })
    const { stuck, heldBack, leaks } = JSON.parse((await ebb(['status', '--json'], { home })).stdout.toString())
    return [...(existsSync(archive) ? [archive] : []), ...stuck, ...heldBack, ...leaks]
  }
  // The sentinel's recovery may run first, before or after the workspace is writable, or may still be running.
  await waitUntil(leftovers, 30_000, 'the archive is deleted, and nothing is stuck')
})

it.each(['workspace', 'base'])(
  'read-only workspace: a deployment that fails because its %s is read-only is rolled back, and other files stay',
  async (which) => {
    await using bench = await openTasks()
    await using mcp = await mcpTo(bench)
    const { task_id, workspace } = await withEndedAgent(mcp)
    const before = readdirSync(join(workspace, 'archive'))
    {
      using _ = readOnly(which === 'base' ? bench.base : workspace)
      const failed = await mcp.call('deploy_headless_agent', { ...agentOf(task_id), prompt: 'another' })
      expect(failed).toMatchObject({ success: false, cleanup_performed: true, error: expect.stringContaining('EROFS') })
      expect(failed.error).not.toMatch(/could not all be removed/)
      expect((await mcp.call('get_cleanup_status')).stuck).toEqual([])
    }
    const { agents } = await mcp.call('get_real_task_status', { task_id })
    expect(agents.agents_list).toHaveLength(1)
    expect(readdirSync(join(workspace, 'archive'))).toEqual(before)
  },
)
