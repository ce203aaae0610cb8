import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Composition } from '../../../src/supervisor.ts'
import { temporaryHome } from '../../support/home.ts'
import { hookOn } from '../../support/hooked.ts'
import { as, deployAndDie, openTasks, orchestrator } from '../../support/tasks.ts'
import { waitUntil } from '../../support/world.ts'

/** The end of agents of a task, and of the task itself. */

/** A command that leaves a child behind whose command line does not refer to the agent. */
const hasAHiddenChild = ['sh', '-c', 'echo hello; (setsid sleep 1000 &) ; exec sleep 1000']

describe('kill of an agent', () => {
  it('ends the agent with all its processes, archives its logs and verifies both', async () => {
    await using bench = await openTasks()
    const task = await bench.create()
    const { agent } = await bench.deploy(task, { command: hasAHiddenChild })
    const of = { taskId: task.id, agentId: agent.name ?? '' }
    await bench.control.waiting.forNews(bench.control.agents, agent.id, 1, 10_000)
    await bench.tasks.progress({ ...of, status: 'working', message: 'm', progress: 1, caller: orchestrator })
    await bench.tasks.finding({ ...of, findingType: 'f', severity: 'low', message: 'm', caller: orchestrator })
    const archive = (what: string): string => join(task.workspace, 'archive', `${agent.name}_${what}.jsonl`)
    const killed = await bench.tasks.kill({ ...of, reason: 'enough', caller: orchestrator })
    expect(killed).toMatchObject({
      success: true,
      reason: 'enough',
      agent: { id: agent.id, name: agent.name },
      descendants: [],
      cleanup: {
        success: true,
        terminalClosed: true,
        promptFileDeleted: true,
        logFilesArchived: true,
        verifiedNoZombies: true,
        zombies: [],
        errors: [],
        archivedFiles: [archive('stream'), archive('progress'), archive('findings')],
        report: { success: true, trigger: 'terminated' },
      },
    })
    expect(await bench.supervisor.runningProcesses()).toEqual([])
    expect(bench.files()).toEqual(
      [
        '',
        `/${task.id}`,
        ...['', ...['findings', 'progress', 'stream'].map((what) => `/${agent.name}_${what}.jsonl`)].map(
          (file) => `/${task.id}/archive${file}`,
        ),
      ].map((path) => `.agent-workspace${path}`),
    )
    // The output of the ended agent can still be read.
    expect(await bench.tasks.output({ ...of, caller: orchestrator })).toEqual({ lines: ['hello'], next: 6 })
    expect(readFileSync(archive('stream'), 'utf8')).toBe('hello\n')
  })

  it('leaves the children of the agent running, and ends them with cascade', async () => {
    await using bench = await openTasks()
    const task = await bench.create()
    const parent = await bench.deploy(task)
    const child = await bench.deploy(task, { parent: parent.agent.id, caller: as(parent) })
    const grandchild = await bench.deploy(task, { parent: child.agent.id, caller: as(child) })
    await bench.tasks.kill({ taskId: task.id, agentId: parent.agent.id, caller: orchestrator })
    expect(bench.control.agents.living.has(child.agent.id)).toBe(true)
    const { descendants, success } = await bench.tasks.kill({
      taskId: task.id,
      agentId: child.agent.id,
      cascade: true,
      caller: orchestrator,
    })
    expect(success).toBe(true)
    expect(descendants.map(({ agent }) => agent.id)).toEqual([grandchild.agent.id])
    expect((await bench.control.agents.get(grandchild.agent.id)).agent.status).toBe('terminated')
    expect(bench.control.agents.living.size).toBe(0)
  })

  it('with cascade ends a child that is being deployed, and refuses later ones', async () => {
    await using bench = await openTasks()
    const task = await bench.create()
    const parent = await bench.deploy(task)
    const prepared = Promise.withResolvers<void>()
    const deploying = bench.deploy(task, {
      prompt: 'too late',
      parent: parent.agent.id,
      onPhase: (phase) => phase === 'prepared' && prepared.resolve(),
    })
    // A rejection of the deployment is ignored here, because it is handled where the promise is awaited below.
    deploying.catch(() => {})
    await prepared.promise
    await bench.tasks.kill({ taskId: task.id, agentId: parent.agent.id, cascade: true, caller: orchestrator })
    await expect(deploying).rejects.toMatchObject({ code: 'spawn_refused' })
    const phases: string[] = []
    const after = bench.deploy(task, { prompt: 'later', parent: parent.agent.id, onPhase: (phase) => phases.push(phase) })
    await expect(after).rejects.toMatchObject({ code: 'spawn_refused', message: expect.stringContaining('was killed') })
    expect(phases).toEqual([])
    expect(bench.control.agents.living.size).toBe(0)
    expect(await bench.supervisor.runningProcesses()).toEqual([])
  })
})

describe('cleanup of an agent', () => {
  it('without keepLogs creates no archive, and deletes the archive of an earlier cleanup', async () => {
    await using bench = await openTasks()
    const task = await bench.create()
    const [one, two] = [await bench.deploy(task, { prompt: '1' }), await bench.deploy(task, { prompt: '2' })]
    const clean = (agentId: string, keepLogs: boolean) => bench.tasks.cleanup({ taskId: task.id, agentId, keepLogs, caller: orchestrator })
    expect(await clean(one.agent.id, true)).toMatchObject({ success: true, archivedFiles: [expect.any(String)] })
    expect(await clean(one.agent.id, false)).toMatchObject({ success: true, archivedFiles: [] })
    expect(await clean(two.agent.id, false)).toMatchObject({ success: true, archivedFiles: [], logFilesArchived: true })
    expect(bench.files()).toEqual([])
  })

  it('concurrent cleanups join into one, and a later one succeeds again', async () => {
    await using bench = await openTasks()
    const task = await bench.create()
    const { agent } = await bench.deploy(task)
    const clean = () => bench.tasks.cleanup({ taskId: task.id, agentId: agent.id, keepLogs: true, caller: orchestrator })
    const all = await Promise.all([clean(), clean(), clean(), clean()])
    for (const result of [...all, await clean()]) expect(result).toMatchObject({ success: true, archivedFiles: [expect.any(String)] })
    expect(new Set(all.map(({ report }) => report.startedAt)).size).toBe(1)
  })

  it('fails while a log is not archived, or when a released log exists again', async () => {
    let isBroken = false
    const wrap = hookOn('effects', (method, args) => {
      if (isBroken && /rename|copy|link|makeDirectory/.test(method) && args.some((arg) => String(arg).includes('/archive')))
        throw Object.assign(new Error('EROFS: read-only file system'), { code: 'EROFS' })
    })
    await using bench = await openTasks({ wrap })
    isBroken = true
    const task = await bench.create()
    const { agent } = await bench.deploy(task, { command: ['sh', '-c', 'echo hello; exec sleep 1000'] })
    await bench.control.waiting.forNews(bench.control.agents, agent.id, 1, 10_000)
    const clean = () => bench.tasks.cleanup({ taskId: task.id, agentId: agent.id, keepLogs: true, caller: orchestrator })
    const owed = await clean()
    expect(owed).toMatchObject({ success: false, logFilesArchived: false, promptFileDeleted: true, verifiedNoZombies: true })
    expect(owed.errors.join()).toContain('EROFS')
    expect(existsSync(join(task.workspace, 'logs', `${agent.name}_stream.jsonl`))).toBe(true)
    isBroken = false
    expect(await clean()).toMatchObject({ success: true, logFilesArchived: true, errors: [] })
    // A path in `logs` that exists again after the archiving is reported as not archived, whoever created it.
    mkdirSync(join(task.workspace, 'logs'), { recursive: true })
    mkdirSync(join(task.workspace, 'logs', `${agent.name}_stream.jsonl`))
    expect(await clean()).toMatchObject({ success: false, logFilesArchived: false })
  })

  it('succeeds when the folder of the logs is removed after they were archived', async () => {
    const wrap = hookOn('effects', (method, [path]) => {
      const logs = join(String(path), '..', 'logs')
      if (method === 'flush' && String(path).endsWith('/archive') && existsSync(logs)) rmSync(logs, { recursive: true })
    })
    await using bench = await openTasks({ wrap })
    const task = await bench.create()
    const { agent } = await bench.deploy(task)
    const result = await bench.tasks.cleanup({ taskId: task.id, agentId: agent.id, keepLogs: true, caller: orchestrator })
    expect(result).toMatchObject({ success: true, errors: [], archivedFiles: [expect.any(String)] })
  })

  it('unknown agent: refused with agent_not_found', async () => {
    await using bench = await openTasks()
    const task = await bench.create()
    const clean = bench.tasks.cleanup({ taskId: task.id, agentId: 'builder-000000-000000', keepLogs: true, caller: orchestrator })
    await expect(clean).rejects.toMatchObject({ code: 'agent_not_found', message: expect.stringContaining(task.id) })
  })
})

describe('task', () => {
  it('completing a task ends its agents, and the task accepts no more', async () => {
    await using bench = await openTasks()
    const task = await bench.create()
    const { agent } = await bench.deploy(task, { command: hasAHiddenChild })
    expect(await bench.tasks.status({ taskId: task.id, caller: orchestrator })).toMatchObject({ status: 'active' })
    const { report, task: done } = await bench.tasks.complete({ taskId: task.id, caller: orchestrator })
    expect(report).toMatchObject({
      success: true,
      trigger: 'request-finished',
      scope: { kind: 'task', id: task.id },
      cleanedAgentsCount: 1,
    })
    expect(done.completedAt).toBeDefined()
    const status = await bench.tasks.status({ taskId: task.id, caller: orchestrator })
    expect(status).toMatchObject({ status: 'completed', counts: { total: 1, active: 0 }, agents: [{ id: agent.id, status: 'terminated' }] })
    await expect(bench.deploy(task)).rejects.toMatchObject({ code: 'scope_closed' })
    expect((await bench.tasks.complete({ taskId: task.id, caller: orchestrator })).report.success).toBe(true)
    expect(await bench.supervisor.runningProcesses()).toEqual([])
    expect(await bench.control.cleanup.status(undefined)).toMatchObject({ leaks: [], stuck: [], resources: {} })
  })

  it('a reset of its namespace deletes the task, with everything that Ebb created in its workspace', async () => {
    await using bench = await openTasks()
    const [task, other] = [await bench.create({ namespace: 'mine' }), await bench.create({ namespace: 'theirs' })]
    const { agent } = await bench.deploy(task, { command: ['true'] })
    await bench.control.waiting.forEnd(agent.id, 10_000, async () => (await bench.control.agents.get(agent.id)).agent.completedAt)
    await bench.deploy(task, { prompt: 'It still runs.' })
    const { success, errors } = await bench.control.cleanup.reset({ namespace: 'mine' }).report
    expect(errors).toEqual([])
    expect(success).toBe(true)
    await expect(bench.tasks.status({ taskId: task.id, caller: orchestrator })).rejects.toMatchObject({ code: 'task_not_found' })
    expect((await bench.tasks.list({ caller: orchestrator })).map((one) => one.task.id)).toEqual([other.id])
    expect(bench.files()).toEqual(['.agent-workspace', `.agent-workspace/${other.id}`])
    await bench.control.cleanup.reset({}).report
    expect(bench.files()).toEqual([])
  })

  it('a deployment that meets a reset does not create the task again', async () => {
    const reset = Promise.withResolvers<void>()
    const asked = Promise.withResolvers<void>()
    let isHeld = false
    const held = async (work: () => Promise<unknown>): Promise<unknown> => {
      if (isHeld) asked.resolve()
      if (isHeld) await reset.promise
      return await work()
    }
    // `findFolder` is the last call of a deployment before the launch.
    const wrap: NonNullable<Composition['wrap']> = (name, port) =>
      name === 'tasks'
        ? new Proxy(port, {
            get: (target, key) => {
              const method = Reflect.get(target, key) as (...args: unknown[]) => Promise<unknown>
              return (...args: unknown[]) => (key === 'findFolder' ? held(() => method.apply(target, args)) : method.apply(target, args))
            },
          })
        : port
    await using bench = await openTasks({ wrap })
    const task = await bench.create()
    isHeld = true
    const deploying = bench.deploy(task)
    // A rejection of the deployment is ignored here, because it is handled where the promise is awaited below.
    deploying.catch(() => {})
    await asked.promise
    await bench.control.cleanup.reset({}).report
    reset.resolve()
    await expect(deploying).rejects.toMatchObject({ code: 'scope_closed' })
    await expect(bench.deploy(task)).rejects.toMatchObject({ code: 'task_not_found' })
    expect(bench.files()).toEqual([])
    expect(await bench.control.cleanup.status(undefined)).toMatchObject({ isClean: true })
  })

  it('recovery completes a task whose supervisor was killed, and leaves only its archive', async () => {
    const home = temporaryHome()
    const base = temporaryHome()
    const { task, agents, token } = await deployAndDie(home, base, 'process')
    await using bench = await openTasks({ home })
    await bench.supervisor.engine.recover({ waitMs: 10_000 })
    const view = await bench.tasks.status({ taskId: task.id, caller: orchestrator })
    expect(view).toMatchObject({ status: 'completed', counts: { total: 2, active: 0 } })
    expect(view.agents.map(({ id }) => id)).toEqual(agents)
    for (const { status, lastProgress } of view.agents) {
      expect(status).toBe('failed')
      expect(lastProgress).toMatchObject({ status: 'working' })
    }
    expect(await bench.tasks.callerOf(token)).toBeUndefined()
    expect(await bench.supervisor.runningProcesses()).toEqual([])
    const left = (readdirSync(base, { recursive: true }) as string[]).filter((file) => !file.includes('/archive/'))
    expect(left.toSorted()).toEqual(['.agent-workspace', `.agent-workspace/${task.id}`, `.agent-workspace/${task.id}/archive`])
    const [first = ''] = agents
    expect(await bench.tasks.output({ taskId: task.id, agentId: first, caller: orchestrator })).toMatchObject({ lines: ['hello'] })
    await expect(bench.deploy(task)).rejects.toMatchObject({ code: 'scope_closed' })
    await bench.control.cleanup.reset({}).report
    expect(readdirSync(base)).toEqual([])
  })
})

describe('output of an agent', () => {
  it('continues from the end of the last answer, from the live log and from the archive', async () => {
    await using bench = await openTasks()
    const task = await bench.create()
    const { agent } = await bench.deploy(task, { command: ['sh', '-c', 'echo one; echo two; printf thr; exec sleep 1000'] })
    const of = { taskId: task.id, agentId: agent.id, caller: orchestrator }
    const log = join(task.workspace, 'logs', `${agent.name}_stream.jsonl`)
    await waitUntil(() => readFileSync(log, 'utf8').endsWith('thr'), 30_000, 'the output is written')
    expect(await bench.tasks.output(of)).toEqual({ lines: ['one', 'two'], next: 8 })
    expect(await bench.tasks.output({ ...of, tail: 1 })).toMatchObject({ lines: ['two'] })
    expect(await bench.tasks.output({ ...of, since: 4 })).toEqual({ lines: ['two'], next: 8 })
    await bench.tasks.kill(of)
    expect((await bench.tasks.output({ ...of, since: 8 })).lines).toEqual(['thr'])
  })
})
