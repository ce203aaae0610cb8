import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { Run } from '../../../src/agents/run.ts'
import { temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import type { Json } from '../../support/server.ts'
import { deployAndDie, openTasks, orchestrator } from '../../support/tasks.ts'
import { sessionsOf } from '../../support/tmux.ts'

needs('tmux')

afterEach(() => void vi.restoreAllMocks())

/** Tasks whose agents run in tmux. The guarantees are the same, and the agents outlive a killed server. */

describe('tmux: an agent of a task', () => {
  it('has a session with its name, and leaves nothing when it is killed', async () => {
    await using bench = await openTasks()
    const { home } = bench.supervisor
    const task = await bench.create()
    const command = ['sh', '-c', 'cat; echo hello; (setsid sleep 1000 &) ; exec sleep 1000']
    const { agent, terminal } = await bench.deploy(task, { placement: 'tmux', command })
    expect(terminal).toEqual({ session: `agent_${agent.name}`, socket: join(home.directory, 'tmux.sock') })
    expect(sessionsOf(home.directory).map(({ name }) => name)).toEqual([terminal?.session])
    const prompt = join(task.workspace, `agent_prompt_${agent.name}.txt`)
    expect(readFileSync(prompt, 'utf8')).toContain(task.id)
    expect(await bench.deploy(task, { placement: 'tmux', command })).toMatchObject({ isDeduplicated: true, agent: { id: agent.id } })
    const { agents } = await bench.tasks.status({ taskId: task.id, caller: orchestrator })
    expect(agents).toMatchObject([{ terminal, placement: 'tmux' }])

    const { cleanup, success } = await bench.tasks.kill({ taskId: task.id, agentId: agent.id, caller: orchestrator })
    expect(cleanup.errors).toEqual([])
    expect(success).toBe(true)
    expect(cleanup).toMatchObject({ terminalClosed: true, promptFileDeleted: true, logFilesArchived: true, verifiedNoZombies: true })
    expect(sessionsOf(home.directory)).toEqual([])
    expect(existsSync(prompt)).toBe(false)
    expect(await bench.supervisor.runningProcesses()).toEqual([])
  })

  it('outlives a killed server with its task: it reports on, is watched again, and ends with its task', async () => {
    const home = temporaryHome()
    const base = temporaryHome()
    const { task, agents, token } = await deployAndDie(home, base, 'tmux', ['one', 'mute', 'two'])
    const [first = '', mute = '', second = ''] = agents
    await using bench = await openTasks({ home, base, keepsSessions: true, flags: { stuckThreshold: '200ms' } })
    const silent = Promise.withResolvers<string>()
    const silentIds = new Set<string>()
    bench.control.events.on('silent', ({ agentId }) => {
      silentIds.add(agentId)
      if (agentId === second) silent.resolve(agentId)
    })
    const lastWord = vi.spyOn(Run.prototype, 'lastWord')
    const farewell = vi.spyOn(Run.prototype, 'farewell')
    await bench.supervisor.engine.recover({ waitMs: 10_000 })
    expect(sessionsOf(home)).toHaveLength(3)
    expect(await bench.tasks.status({ taskId: task.id, caller: orchestrator })).toMatchObject({ status: 'active', counts: { active: 3 } })

    expect(await bench.tasks.callerOf(token)).toEqual({ agentId: first })
    const own = { taskId: task.id, agentId: first, caller: { agentId: first } }
    expect(await bench.tasks.progress({ ...own, status: 'working', message: 'still here', progress: 60 })).toEqual({ isOwn: true })
    const [file = ''] = readdirSync(join(task.workspace, 'progress'))
    expect(existsSync(join(task.workspace, 'progress', file))).toBe(true)
    await silent.promise
    // The agent `mute` cannot report, so it does not count as silent. `completed` was reported for it, so it has the rest of its 30 s to
    // exit.
    expect(silentIds.has(mute)).toBe(false)
    expect(lastWord).not.toHaveBeenCalled()
    expect(farewell).toHaveBeenCalledExactlyOnceWith({ status: 'completed', message: '', by: expect.any(String) }, expect.any(Number))
    const [[lastReport, patienceMs = 0] = []] = farewell.mock.calls
    expect(patienceMs).toBeGreaterThan(10_000)
    expect(patienceMs).toBeLessThan(30_000)
    const again = await bench.tasks.progress({
      taskId: task.id,
      agentId: mute,
      status: 'completed',
      message: '',
      progress: 100,
      caller: orchestrator,
    })
    expect(Date.parse(again.cleanup?.by ?? '') - Date.parse((lastReport as Json).by)).toBeLessThan(100)
    // The task accepts agents as before the kill, and knows its agents and their parents.
    expect(await bench.deploy(task, { prompt: 'one' })).toMatchObject({ isDeduplicated: true, agent: { id: first } })
    const child = await bench.deploy(task, { prompt: 'child', parent: first, caller: { agentId: first } })
    expect(child.agent.parentAgentId).toBe(first)
    // The agent `second` ends, and the folders stay for the other agents.
    await bench.tasks.cleanup({ taskId: task.id, agentId: second, keepLogs: false, caller: orchestrator })
    expect(existsSync(join(task.workspace, 'logs'))).toBe(true)

    const { report } = await bench.tasks.complete({ taskId: task.id, caller: orchestrator })
    expect(report.errors).toEqual([])
    expect(report).toMatchObject({ success: true, cleanedAgentsCount: 3 })
    expect(sessionsOf(home)).toEqual([])
    expect(await bench.supervisor.runningProcesses()).toEqual([])
    await bench.control.cleanup.reset({}).report
    expect(readdirSync(base)).toEqual([])
  })
})
