import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Task } from '../../../src/core/model/task.ts'
import type { Callback, Deployed } from '../../../src/tasks/types.ts'
import { hookOn } from '../../support/hooked.ts'
import { as, listens, openTasks, orchestrator, type TaskBench } from '../../support/tasks.ts'

/** The reports of agents about their work, and their effects. */

const lines = (path: string): readonly unknown[] =>
  readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown)

const report = (bench: TaskBench, task: Task, deployed: Deployed, status: string, more: object = {}) =>
  bench.tasks.progress({
    taskId: task.id,
    agentId: deployed.agent.name ?? '',
    status,
    message: 'A report.',
    progress: 50,
    caller: as(deployed),
    ...more,
  })

const find = (bench: TaskBench, task: Task, deployed: Deployed, more: object = {}) =>
  bench.tasks.finding({
    taskId: task.id,
    agentId: deployed.agent.id,
    findingType: 'bug',
    severity: 'high',
    message: 'A post is rotten.',
    caller: as(deployed),
    ...more,
  })

const ended = (bench: TaskBench, { agent }: Deployed): Promise<string | undefined> =>
  bench.control.waiting.forEnd(agent.id, 10_000, async () => {
    const now = (await bench.control.agents.get(agent.id)).agent
    return now.completedAt === undefined ? undefined : now.status
  })

describe('reports of progress and findings', () => {
  it('are written as lines to the public files, and shown in the status', async () => {
    await using bench = await openTasks()
    const task = await bench.create()
    const deployed = await bench.deploy(task)
    const { id, name } = deployed.agent
    expect(await report(bench, task, deployed, 'working', { progress: 10 })).toEqual({ isOwn: true })
    expect(await report(bench, task, deployed, 'testing', { agentId: id, message: 'Zäune\nund "Pfosten"', caller: orchestrator })).toEqual({
      isOwn: false,
    })
    expect(await find(bench, task, deployed, { data: { post: 7 } })).toEqual({ isOwn: true })
    const timestamp = expect.stringMatching(/^\d{4}-.*\.\d{3}Z$/)
    expect(lines(join(task.workspace, 'progress', `${name}_progress.jsonl`))).toEqual([
      { timestamp, agent_id: name, status: 'working', message: 'A report.', progress: 10 },
      { timestamp, agent_id: name, status: 'testing', message: 'Zäune\nund "Pfosten"', progress: 50 },
    ])
    expect(lines(join(task.workspace, 'findings', `${name}_findings.jsonl`))).toEqual([
      { timestamp, agent_id: name, finding_type: 'bug', severity: 'high', message: 'A post is rotten.', data: { post: 7 } },
    ])
    const { agents } = await bench.tasks.status({ taskId: task.id, caller: orchestrator })
    expect(agents).toMatchObject([{ id, findings: 1, lastProgress: { status: 'testing', progress: 50 } }])
  })

  it.each([
    ['a too long message', { message: 'x'.repeat(10_001) }],
    ['an empty status', { status: '' }],
    ['a too long status', { status: 'x'.repeat(201) }],
    ['a progress above 100', { progress: 101 }],
    ['a progress that is not a number', { progress: Number.NaN }],
  ])('refuse %s', async (_, more) => {
    await using bench = await openTasks()
    const task = await bench.create()
    const deployed = await bench.deploy(task)
    await expect(report(bench, task, deployed, 'working', more)).rejects.toMatchObject({ code: 'invalid_request' })
  })

  it('refuse data of more than 64 KiB', async () => {
    await using bench = await openTasks()
    const task = await bench.create()
    const deployed = await bench.deploy(task)
    await expect(find(bench, task, deployed, { data: 'ü'.repeat(33_000) })).rejects.toMatchObject({ code: 'invalid_request' })
    await find(bench, task, deployed, { data: 'ü'.repeat(32_000) })
  })

  it('reports of an ended agent are refused, and create no files', async () => {
    await using bench = await openTasks()
    const task = await bench.create()
    const deployed = await bench.deploy(task)
    const stopping = bench.control.agents.stop(deployed.agent.id, { force: true })
    await expect(report(bench, task, deployed, 'working')).rejects.toMatchObject({
      code: 'agent_ended',
      message: expect.stringContaining('being ended'),
    })
    await stopping
    await expect(report(bench, task, deployed, 'working')).rejects.toMatchObject({
      code: 'agent_ended',
      message: expect.stringContaining('has ended'),
    })
    await expect(find(bench, task, deployed)).rejects.toMatchObject({ code: 'agent_ended' })
    expect(existsSync(join(task.workspace, 'progress'))).toBe(false)
    expect(existsSync(join(task.workspace, 'findings'))).toBe(false)
  })

  it('that cannot be written fail with report_unwritten, and a last report still ends the agent', async () => {
    const wrap = hookOn('effects', (method, [path]) => {
      if (/append|openFile/.test(method) && String(path).endsWith('_progress.jsonl'))
        throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' })
    })
    await using bench = await openTasks({ wrap })
    const task = await bench.create()
    const deployed = await bench.deploy(task, { command: ['sh', '-c', 'read line; exec sleep 1000'] })
    await expect(report(bench, task, deployed, 'completed')).rejects.toMatchObject({
      code: 'report_unwritten',
      message: expect.stringContaining('ENOSPC'),
    })
    process.kill(bench.control.agents.living.get(deployed.agent.id)?.pid ?? 0, 'SIGKILL')
    expect(await ended(bench, deployed)).toBe('completed')
  })

  it('are refused when their file has reached its limit, and a last report still ends the agent', async () => {
    await using bench = await openTasks({ flags: { limitLog: '400' } })
    const task = await bench.create()
    const deployed = await bench.deploy(task)
    const tooLarge = { code: 'too_large', message: expect.stringContaining('may have at most 400 bytes') }
    for (const say of [() => report(bench, task, deployed, 'working'), () => find(bench, task, deployed)]) {
      await say()
      await expect(Promise.all(Array.from({ length: 4 }, say))).rejects.toMatchObject(tooLarge)
    }
    for (const what of ['progress', 'findings']) {
      const { length } = readFileSync(join(task.workspace, what, `${deployed.agent.name}_${what}.jsonl`))
      expect([length > 200, length <= 400]).toEqual([true, true])
    }
    await expect(report(bench, task, deployed, 'completed')).rejects.toMatchObject(tooLarge)
    process.kill(bench.control.agents.living.get(deployed.agent.id)?.pid ?? 0, 'SIGKILL')
    expect(await ended(bench, deployed)).toBe('completed')
  })
})

describe('last report of an agent', () => {
  it.each([
    ['completed', 'exit 0', 'completed'],
    ['completed', 'exit 3', 'failed'],
    ['failed', 'exit 0', 'failed'],
    ['terminated', 'exit 0', 'terminated'],
  ])('after %s and then %s, the agent is %s when its process has ended', async (reported, exit, status) => {
    await using bench = await openTasks()
    const task = await bench.create()
    const go = join(bench.base, 'go')
    const deployed = await bench.deploy(task, { command: ['sh', '-c', `mkfifo "${go}"; echo ready; read line < "${go}"; ${exit}`] })
    await bench.control.waiting.forNews(bench.control.agents, deployed.agent.id, 1, 10_000)
    const before = Date.now()
    const taken = await report(bench, task, deployed, reported, { progress: 100 })
    expect(taken).toMatchObject({ isOwn: true, cleanup: { scheduled: true } })
    expect(Date.parse(taken.cleanup?.by ?? '')).toBeGreaterThanOrEqual(before + 29_000)
    expect(bench.control.agents.living.get(deployed.agent.id)?.status).toBe('running')
    // A second last report does not move the deadline.
    expect(await report(bench, task, deployed, reported, { progress: 100 })).toEqual(taken)
    await import('node:fs/promises').then(({ writeFile }) => writeFile(go, 'on\n'))
    expect(await ended(bench, deployed)).toBe(status)
  })

  it('is validated against status, exit code and messages', async () => {
    await using bench = await openTasks()
    const task = await bench.create()
    const silent = await bench.deploy(task, { prompt: 'silent', command: ['true'] })
    expect(await ended(bench, silent)).toBe('completed')
    const good = await bench.deploy(task, { prompt: 'good', command: ['sh', '-c', 'echo done; exec sleep 1000'] })
    await bench.control.waiting.forNews(bench.control.agents, good.agent.id, 1, 10_000)
    await report(bench, task, good, 'completed', { progress: 100 })
    const killed = await bench.deploy(task, { prompt: 'killed' })
    await report(bench, task, killed, 'completed', { progress: 40 })
    for (const { agent } of [good, killed]) await bench.control.agents.stop(agent.id, { force: true })
    const { agents } = await bench.tasks.status({ taskId: task.id, caller: orchestrator })
    const warnings = new Map(agents.map(({ id, completionValidation }) => [id, completionValidation]))
    expect(warnings.get(silent.agent.id)).toEqual({
      valid: false,
      warnings: ['The agent ended without a progress report.', 'The agent wrote no output.'],
    })
    expect(warnings.get(good.agent.id)).toEqual({ valid: false, warnings: ['The agent was ended before it finished.'] })
    expect(warnings.get(killed.agent.id)?.warnings).toContain('The agent reported completed at 40 percent.')
  })
})

describe('agent that sends no reports', () => {
  it('is marked as stuck and emitted as silent until it reports again', async () => {
    // The threshold is long enough to observe the agent between its report and its next silence.
    await using bench = await openTasks({ callback: listens, flags: { stuckThreshold: '2s' } })
    const task = await bench.create()
    const first = Promise.withResolvers<unknown>()
    bench.control.events.on('silent', first.resolve)
    const deployed = await bench.deploy(task)
    expect(await first.promise).toMatchObject({ agentId: deployed.agent.id, taskId: task.id, namespace: 'default' })
    const view = async () => (await bench.tasks.status({ taskId: task.id, caller: orchestrator })).agents[0]
    expect(await view()).toMatchObject({ status: 'running', stuck: { silentMs: expect.any(Number), since: expect.any(String) } })
    const again = Promise.withResolvers<unknown>()
    bench.control.events.on('silent', again.resolve)
    await find(bench, task, deployed)
    expect((await view())?.stuck).toBeUndefined()
    // The next silence of the same agent is emitted again.
    await again.promise
  })

  it('is ended with stuckAction end', async () => {
    await using bench = await openTasks({ callback: listens, flags: { stuckThreshold: '50ms', stuckAction: 'end' } })
    const task = await bench.create()
    const deployed = await bench.deploy(task)
    expect(await ended(bench, deployed)).toBe('failed')
    expect((await bench.control.agents.get(deployed.agent.id)).agent.error?.name).toBe('stuck')
    expect(await bench.supervisor.runningProcesses()).toEqual([])
  })

  it('does not count as silent when it cannot report', async () => {
    let isListening = false
    const callback = (): Callback | undefined => (isListening ? listens() : undefined)
    await using bench = await openTasks({ callback, flags: { stuckThreshold: '50ms', stuckAction: 'end' } })
    const task = await bench.create()
    const later = [{ delay: 600_000, type: 'complete' as const, data: {} }]
    const mute = [
      // The first agent has no server that accepts its calls.
      await bench.deploy(task, { prompt: 'no server' }),
      // The second agent has a provider without MCP support.
      await bench.deploy(task, { prompt: 'synthetic', provider: 'synthetic', configuration: { schedule: later } }),
    ]
    isListening = true
    expect(await ended(bench, await bench.deploy(task, { prompt: 'it could' }))).toBe('failed')
    for (const { agent } of mute) expect(bench.control.agents.living.get(agent.id)?.status).toBe('running')
  })
})
