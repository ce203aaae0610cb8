import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import type { Deployed } from '../../../src/tasks/types.ts'
import { partsOf } from '../../support/engine-parts.ts'
import { temporaryHome } from '../../support/home.ts'
import { hookOn } from '../../support/hooked.ts'
import { listens, openTasks, orchestrator, type TaskBench } from '../../support/tasks.ts'
import { waitUntil } from '../../support/world.ts'

/** A deployment creates one whole agent, or nothing. */

const contentOf = async (bench: TaskBench, { agent, workspace }: Deployed): Promise<string> => {
  const log = join(workspace, 'logs', `${agent.name}_stream.jsonl`)
  await waitUntil(() => readFileSync(log, 'utf8').includes('THE END'), 30_000, 'the agent has read its prompt')
  expect(bench.control.agents.living.has(agent.id)).toBe(true)
  return readFileSync(log, 'utf8')
}

const readsItsPrompt = ['sh', '-c', 'cat; echo; echo THE END; exec sleep 1000']

describe('deployed agent', () => {
  it('has a name, files in the workspace and a working directory', async () => {
    await using bench = await openTasks()
    const task = await bench.create()
    expect(task.id).toMatch(/^TASK-\d{8}-\d{6}-[0-9a-f]{8}$/)
    expect((statSync(task.workspace).mode & 0o777).toString(8)).toBe('700')
    const { agent, workspace, isDeduplicated } = await bench.deploy(task, { agentType: 'code_reviewer' })
    expect(isDeduplicated).toBe(false)
    expect(agent.name).toMatch(/^code_reviewer-\d{6}-[0-9a-f]{6}$/)
    expect(workspace).toBe(join(bench.base, '.agent-workspace', task.id))
    expect(agent).toMatchObject({ status: 'running', taskId: task.id, session: { prompt: 'Do your part.' } })
    expect(agent.session.configuration.workingDirectory).toBe(bench.base)
    expect(existsSync(join(workspace, `agent_prompt_${agent.name}.txt`))).toBe(true)
  })

  it('reads its task and name before its prompt, and no tool calls when no server accepts them', async () => {
    await using bench = await openTasks()
    const task = await bench.create({ description: 'Mend the fence of the north field' })
    const deployed = await bench.deploy(task, { command: readsItsPrompt })
    const read = await contentOf(bench, deployed)
    for (const text of [task.id, 'Mend the fence of the north field', task.workspace, deployed.agent.name ?? '', 'the orchestrator'])
      expect(read).toContain(text)
    expect(read.indexOf('Do your part.')).toBeGreaterThan(read.indexOf(task.id))
    expect(read).not.toContain('update_agent_progress')
  })

  it('reads the tool calls with its own ids when a server accepts them', async () => {
    await using bench = await openTasks({ callback: listens })
    const task = await bench.create()
    const parent = await bench.deploy(task)
    const deployed = await bench.deploy(task, {
      parent: parent.agent.name ?? '',
      command: ['sh', '-c', 'cat; cat "$EBB_MCP_CONFIG"; echo THE END; exec sleep 1000'],
    })
    const { name, id } = deployed.agent
    const read = await contentOf(bench, deployed)
    expect(read).toContain(`deployed by the agent ${parent.agent.name}`)
    expect(read).toContain(`update_agent_progress {"task_id":"${task.id}","agent_id":"${name}","status":"completed"`)
    expect(read).toContain(`report_agent_finding {"task_id":"${task.id}","agent_id":"${name}"`)
    expect(read).toContain(`spawn_child_agent {"task_id":"${task.id}","parent_agent_id":"${name}"`)
    const token = /"EBB_TOKEN": "([\w-]{43})"/.exec(read)?.[1] ?? ''
    expect(read).toContain('"command": "/opt/ebb/bin/ebb"')
    expect(read).toContain('"EBB_URL": "http://127.0.0.1:4400"')
    expect(await bench.tasks.callerOf(token)).toEqual({ agentId: id })
    // The token is stored neither in the rows nor in the ledger.
    const { ledger } = partsOf(bench.supervisor.engine)
    const stored = JSON.stringify([await bench.supervisor.agents.find(id), await ledger.resources(id)])
    expect(stored).not.toContain(token)
  })

  it('reads no tool calls when its provider has no MCP support', async () => {
    const folder = temporaryHome()
    writeFileSync(join(folder, 'gemini'), '#!/bin/sh\nexec sleep 1000\n', { mode: 0o755 })
    vi.stubEnv('PATH', `${folder}:${process.env.PATH}`)
    await using bench = await openTasks({ callback: listens })
    vi.unstubAllEnvs()
    const { agent, workspace } = await bench.deploy(await bench.create(), { provider: 'gemini-cli' })
    expect(readFileSync(join(workspace, `agent_prompt_${agent.name}.txt`), 'utf8')).not.toContain('update_agent_progress')
  })
})

describe('equal deployments', () => {
  it('concurrent equal deployments create one agent', async () => {
    await using bench = await openTasks()
    const task = await bench.create()
    const all = await Promise.all(Array.from({ length: 8 }, () => bench.deploy(task)))
    expect(new Set(all.map(({ agent }) => agent.id)).size).toBe(1)
    expect(all.filter(({ isDeduplicated }) => !isDeduplicated)).toHaveLength(1)
    // An equal deployment that comes later, while the agent runs, returns the same agent.
    expect(await bench.deploy(task)).toMatchObject({ isDeduplicated: true, agent: { id: all[0]?.agent.id } })
    expect((await bench.tasks.status({ taskId: task.id, caller: orchestrator })).counts.total).toBe(1)
  })

  it('a deployment is new with another type, prompt, parent or task, after the first has ended, or with allowDuplicate', async () => {
    await using bench = await openTasks()
    const task = await bench.create()
    const first = await bench.deploy(task)
    const others = [
      await bench.deploy(task, { agentType: 'tester' }),
      await bench.deploy(task, { prompt: 'Do more.' }),
      await bench.deploy(task, { parent: first.agent.id }),
      await bench.deploy(await bench.create()),
      await bench.deploy(task, { allowDuplicate: true }),
    ]
    expect(others.map(({ isDeduplicated }) => isDeduplicated)).toEqual([false, false, false, false, false])
    for (const { agent } of [first, ...others]) await bench.control.agents.stop(agent.id, { force: true })
    expect(await bench.deploy(task)).toMatchObject({ isDeduplicated: false })
  })

  it('a failure is the answer to all joined callers, and leaves nothing', async () => {
    let isBroken = false
    const wrap = hookOn('effects', (method) => {
      if (isBroken && method === 'spawn') throw new Error('no process for you')
    })
    await using bench = await openTasks({ wrap })
    const task = await bench.create()
    isBroken = true
    const ends = await Promise.allSettled([bench.deploy(task), bench.deploy(task), bench.deploy(task)])
    expect(ends.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    const [reason] = ends.map((end) => (end as PromiseRejectedResult).reason as unknown)
    expect(ends.every((end) => (end as PromiseRejectedResult).reason === reason)).toBe(true)
    expect(reason).toMatchObject({ code: 'launch_failed', details: { success: true } })
    // The folders of the task were empty, so the last agent's close removed them.
    expect(bench.files()).toEqual([])
    expect((await bench.tasks.status({ taskId: task.id, caller: orchestrator })).agents).toEqual([])
    expect(await bench.supervisor.runningProcesses()).toEqual([])
    isBroken = false
    expect(await bench.deploy(task)).toMatchObject({ isDeduplicated: false })
  })
})

describe('deployment that fails', () => {
  it.each([
    ['the folder', 'makeDirectory'],
    ['the prompt file', 'createFile'],
    ['the pipe of the log', 'makePipe'],
    ['the collector or the process', 'spawn'],
  ])('at %s leaves no file, folder, row or process', async (_, failing) => {
    let isBroken = false
    const wrap = hookOn('effects', (method) => {
      if (isBroken && method === failing) throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' })
    })
    await using bench = await openTasks({ wrap })
    const task = await bench.create()
    const first = await bench.deploy(task, { prompt: 'The first one goes, with the folders.' })
    await bench.control.agents.remove(first.agent.id, { force: true })
    expect(bench.files()).toEqual([])
    isBroken = true
    await expect(bench.deploy(task)).rejects.toMatchObject({ code: 'launch_failed', details: { success: true } })
    expect(bench.files()).toEqual([])
    expect((await bench.supervisor.agents.list({})).agents).toEqual([])
    expect(await bench.supervisor.runningProcesses()).toEqual([])
  })

  it('at the ledger leaves nothing, and the files of other agents stay', async () => {
    let isBroken = false
    const wrap = hookOn('ledger', (method) => {
      if (isBroken && method === 'hold') throw new Error('the disk is full')
    })
    await using bench = await openTasks({ wrap })
    const task = await bench.create()
    const living = await bench.deploy(task, { prompt: 'Stay.' })
    const before = bench.files()
    isBroken = true
    await expect(bench.deploy(task)).rejects.toMatchObject({ code: 'launch_failed', details: { success: true } })
    expect(bench.files()).toEqual(before)
    expect(bench.control.agents.living.get(living.agent.id)?.status).toBe('running')
  })

  it('is rolled back when its only caller cancels', async () => {
    await using bench = await openTasks()
    const task = await bench.create()
    const cancellation = new AbortController()
    const deploying = bench.deploy(task, { signal: cancellation.signal, onPhase: (phase) => phase === 'prepared' && cancellation.abort() })
    await expect(deploying).rejects.toMatchObject({ code: 'cancelled' })
    expect(bench.files()).toEqual([])
    expect((await bench.supervisor.agents.list({})).agents).toEqual([])
    expect(await bench.supervisor.runningProcesses()).toEqual([])
    await expect(bench.deploy(task, { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'cancelled' })
  })

  it('continues when one of two callers cancels', async () => {
    await using bench = await openTasks()
    const task = await bench.create()
    const cancellation = new AbortController()
    const first = bench.deploy(task, {
      signal: cancellation.signal,
      onPhase: (phase) => phase === 'prepared' && queueMicrotask(() => cancellation.abort()),
    })
    const second = bench.deploy(task)
    await expect(first).rejects.toMatchObject({ code: 'cancelled' })
    expect(await second).toMatchObject({ isDeduplicated: true, agent: { status: 'running' } })
  })
})

describe('folders of a workspace', () => {
  it('are removed with the last agent when empty, and created again for the next', async () => {
    await using bench = await openTasks()
    const task = await bench.create()
    const [one, two] = [await bench.deploy(task, { prompt: 'one' }), await bench.deploy(task, { prompt: 'two' })]
    await bench.tasks.cleanup({ taskId: task.id, agentId: one.agent.id, keepLogs: false, caller: orchestrator })
    expect(existsSync(join(task.workspace, 'logs', `${two.agent.name}_stream.jsonl`))).toBe(true)
    await bench.tasks.cleanup({ taskId: task.id, agentId: two.agent.id, keepLogs: false, caller: orchestrator })
    expect(bench.files()).toEqual([])
    await bench.deploy(task, { prompt: 'three' })
    expect(existsSync(join(task.workspace, 'logs'))).toBe(true)
  })

  it('stay when they contain files of others', async () => {
    await using bench = await openTasks()
    const task = await bench.create()
    const { agent } = await bench.deploy(task)
    writeFileSync(join(task.workspace, 'notes.md'), 'mine')
    const { success } = await bench.tasks.cleanup({ taskId: task.id, agentId: agent.id, keepLogs: false, caller: orchestrator })
    expect(success).toBe(true)
    const { report } = await bench.tasks.complete({ taskId: task.id, caller: orchestrator })
    expect(report.success).toBe(true)
    expect(bench.files()).toEqual(['.agent-workspace', `.agent-workspace/${task.id}`, `.agent-workspace/${task.id}/notes.md`])
  })

  it('the shared folder is removed with the last task', async () => {
    await using bench = await openTasks()
    const [one, two] = [await bench.create(), await bench.create()]
    expect((await bench.tasks.complete({ taskId: one.id, caller: orchestrator })).report.success).toBe(true)
    expect(bench.files()).toEqual(['.agent-workspace', `.agent-workspace/${two.id}`])
    expect((await bench.tasks.complete({ taskId: two.id, caller: orchestrator })).report.success).toBe(true)
    expect(bench.files()).toEqual([])
  })

  it('stay when they existed before, although they are empty', async () => {
    await using bench = await openTasks()
    mkdirSync(join(bench.base, '.agent-workspace'))
    const task = await bench.create()
    await bench.tasks.complete({ taskId: task.id, caller: orchestrator })
    expect(bench.files()).toEqual(['.agent-workspace'])
  })

  it('are never created or removed through a symlink', async () => {
    await using bench = await openTasks()
    const target = temporaryHome()
    symlinkSync(target, join(bench.base, '.agent-workspace'))
    await expect(bench.create()).rejects.toMatchObject({ code: 'path_refused', message: expect.stringContaining('link') })
    expect(await bench.tasks.list({ caller: orchestrator })).toEqual([])
    expect(bench.files()).toEqual(['.agent-workspace'])
  })
})
