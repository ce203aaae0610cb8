import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readVersion } from '../../src/agents/probe.ts'
import { loadConfig } from '../../src/config/config.ts'
import type { ScopeView } from '../../src/core/engine/api.ts'
import { Reaper } from '../../src/core/engine/reap.ts'
import { leftOver, type ResourceReport } from '../../src/core/model/report.ts'
import { logLabels } from '../../src/core/ports/agent-log.ts'
import { label } from '../../src/core/ports/handles.ts'
import { type Planned, planned } from '../../src/core/ports/kind.ts'
import { treeLabel } from '../../src/core/ports/process.ts'
import { readStart } from '../../src/host/slow-effects.ts'
import { directoryKind, fileKind } from '../../src/kinds/file/kind.ts'
import { tempFolderOf } from '../../src/kinds/temp-folder/kind.ts'
import { compose } from '../../src/main.ts'
import type { Supervisor } from '../../src/supervisor.ts'
import { partsOf } from '../support/engine-parts.ts'
import { CrashPoint, say } from './crash-point.ts'
import type { Job, Role } from './job.ts'

/**
 * A supervisor process that plays one role and may be killed at any of its effects. The supervisor is composed as in the program itself.
 */

/** A daemon in its own session that ignores SIGTERM. Its parents have exited when it prints its line. */
const daemon = `(setsid sh -c 'trap "" TERM HUP; echo daemon; exec sleep 600' &)`
/** A daemon in its own session that ends at SIGTERM. It is for rollback and reaper, which do not use the short grace of this driver. */
const politeDaemon = `(setsid sh -c 'echo daemon; exec sleep 600' &)`
const graceMs = 20
/** Shorter times for AWS, because the emulator settles faster than AWS. */
const shortTimes = { settleMs: 300, firstObserveDelayMs: 20, longestObserveDelayMs: 200 }

const job = JSON.parse(process.argv[2] ?? '{}') as Job
const point = new CrashPoint(job.crash)

const roles: Record<Role, (supervisor: Supervisor, job: Job) => Promise<readonly string[]>> = {
  terminate: async (supervisor, job) => {
    const scope = openAgent(supervisor)
    await launchAndListen(supervisor, scope, planWithLogs(supervisor, job, scope, daemon))
    await supervisor.engine.close(scope.id, { trigger: 'terminated', graceMs })
    return await leave(supervisor)
  },
  delete: async (supervisor, job) => {
    const scope = openAgent(supervisor)
    await launchAndListen(supervisor, scope, planWithLogs(supervisor, job, scope, daemon))
    await supervisor.engine.close(scope.id, { trigger: 'deleted', graceMs })
    return await leave(supervisor)
  },
  // The archive and the rows of an agent are removed, as by a `DELETE` of an ended agent.
  remove: async (supervisor, job) => {
    await supervisor.engine.begin()
    const control = await supervisor.control()
    const configuration = { command: ['/bin/sh', '-c', 'echo line'], workingDirectory: job.workspace }
    const { agent, run } = await control.agents.launch({ type: 'command', prompt: 'a prompt', namespace: 'default', configuration })
    await new Promise<void>((resolve) => control.events.on('terminated', ({ agentId }) => agentId === run.id && resolve()))
    say({ is: 'ready', effects: point.counts })
    await control.agents.remove(agent.id, {})
    await control.close()
    return await leave(supervisor)
  },
  // A version query of a program that leaves a daemon behind.
  probe: async (supervisor) => {
    const { engine, clock, newId, plan } = supervisor
    const deps = {
      engine,
      clock,
      newId,
      plan,
      environment: environment(),
      readStart,
      tempFolderOf: (id: string) => tempFolderOf(tmpdir(), id),
    }
    const said = await readVersion(['/bin/sh', '-c', `${daemon}; echo 1.2.3`], deps)
    return [...(said?.includes('1.2.3') ? [] : [`the program said ${said}`]), ...(await leave(supervisor))]
  },
  // The last resource of the plan cannot be created, because its path is taken. Everything before it is rolled back.
  rollback: async (supervisor, job) => {
    const scope = openAgent(supervisor)
    const plan = [...planWithLogs(supervisor, job, scope, politeDaemon), file(job, 'taken', 'taken.txt', ['tree'])]
    const outcome = await supervisor.engine.launch(scope, plan).then(
      () => ['the launch succeeded'],
      () => [],
    )
    return [...outcome, ...(await leave(supervisor))]
  },
  // Like `ebb exec`: the command exits by itself and leaves its daemon behind.
  complete: async (supervisor, job) => {
    const scope = openAgent(supervisor)
    const plan = supervisor.plan(scope.id, { ...command(job, `${daemon}; exit 7`), output: 'inherit' })
    const handles = await supervisor.engine.launch(scope, plan)
    await handles.get(treeLabel).exit
    say({ is: 'ready', effects: point.counts })
    await supervisor.engine.close(scope.id, { trigger: 'completed', forget: true, graceMs })
    return await leave(supervisor)
  },
  // A task from its creation to its end, as an MCP client requests it: files, logs, session and rows.
  deploy: async (supervisor, job) => {
    await supervisor.engine.begin()
    const control = await supervisor.control()
    const caller = 'orchestrator'
    const base = job.workspace
    const task = await control.tasks.create({ namespace: 'default', description: 'a task', priority: 'P2', base, caller })
    const { agent } = await control.tasks.deploy({
      ...{ taskId: task.id, agentType: 'builder', prompt: 'a prompt', parent: caller, provider: 'command', placement: 'tmux', caller },
      command: ['/bin/sh', '-c', `${daemon}; echo line; exec sleep 600`],
    })
    const report = { taskId: task.id, agentId: agent.id, caller } as const
    await control.tasks.progress({ ...report, status: 'working', message: 'half', progress: 50 })
    await control.tasks.finding({ ...report, findingType: 'bug', severity: 'low', message: 'found' })
    await control.agents.stop(agent.id, { graceMs })
    const { report: completion } = await control.tasks.complete({ taskId: task.id, caller })
    const left = leftOver(completion).map(describeEntry)
    await control.close()
    return [...left, ...(await leave(supervisor))]
  },
  // An ECS task with its lease, target and upload, and the agent in it.
  ecs: async (supervisor, job) => {
    const scope = openAgent(supervisor)
    const configuration = { command: ['/bin/sh', '-c', `${daemon}; echo line; exec sleep 600`] }
    const order = { agentId: scope.id, type: 'command', prompt: 'a prompt', configuration }
    const launch = { argv: [], env: {}, cwd: job.workspace, stdin: 'ignore', output: 'logs', placement: 'ecs', order } as const
    await launchAndListen(supervisor, scope, supervisor.plan(scope.id, launch))
    await supervisor.engine.close(scope.id, { trigger: 'terminated', graceMs: 2_000 })
    return await leave(supervisor)
  },
  // The plan has only resources that carry a mark of their own, for a test that loses the ledger.
  'logs-only': async (supervisor, job) => {
    const scope = openAgent(supervisor)
    await launchAndListen(
      supervisor,
      scope,
      supervisor.plan(scope.id, { ...command(job, `${politeDaemon}; echo line; exec sleep 600`, false), output: 'logs' }),
    )
    await supervisor.engine.close(scope.id, { trigger: 'terminated', graceMs })
    return await leave(supervisor)
  },
  'docker-terminate': async (supervisor, job) => {
    const scope = openAgent(supervisor)
    await launchAndListen(supervisor, scope, planDocker(supervisor, job, scope))
    await supervisor.engine.close(scope.id, { trigger: 'terminated', graceMs })
    return await leave(supervisor)
  },
  'docker-delete': async (supervisor, job) => {
    const scope = openAgent(supervisor)
    await launchAndListen(supervisor, scope, planDocker(supervisor, job, scope))
    await supervisor.engine.close(scope.id, { trigger: 'deleted', graceMs })
    return await leave(supervisor)
  },
  // A foreign client has set the restart policy `always` and has paused the container.
  'docker-paused': async (supervisor, job) => {
    const scope = openAgent(supervisor)
    await launchAndListen(supervisor, scope, planDocker(supervisor, job, scope))
    const container = docker('ps', '-q', '--filter', `label=ebb.scope=${scope.id}`)
    docker('update', '--restart', 'always', container)
    docker('pause', container)
    await supervisor.engine.close(scope.id, { trigger: 'terminated', graceMs })
    return await leave(supervisor)
  },
  'docker-rollback': async (supervisor, job) => {
    const scope = openAgent(supervisor)
    const plan = [...planDocker(supervisor, job, scope), file(job, 'taken', 'taken.txt', ['tree'])]
    const outcome = await supervisor.engine.launch(scope, plan).then(
      () => ['the launch succeeded'],
      () => [],
    )
    return [...outcome, ...(await leave(supervisor))]
  },
  'remote-terminate': async (supervisor, job) => {
    const scope = openAgent(supervisor)
    await launchAndListen(supervisor, scope, planRemote(supervisor, job, scope))
    await supervisor.engine.close(scope.id, { trigger: 'terminated', graceMs })
    return await leave(supervisor)
  },
  'remote-delete': async (supervisor, job) => {
    const scope = openAgent(supervisor)
    await launchAndListen(supervisor, scope, planRemote(supervisor, job, scope))
    await supervisor.engine.close(scope.id, { trigger: 'deleted', graceMs })
    return await leave(supervisor)
  },
  'remote-rollback': async (supervisor, job) => {
    const scope = openAgent(supervisor)
    const plan = [...planRemote(supervisor, job, scope), file(job, 'taken', 'taken.txt', ['tree'])]
    const outcome = await supervisor.engine.launch(scope, plan).then(
      () => ['the launch succeeded'],
      () => [],
    )
    return [...outcome, ...(await leave(supervisor))]
  },
  recover: async (supervisor) => {
    await supervisor.engine.begin()
    const recovery = await supervisor.engine.recover()
    const left = recovery.reports.flatMap(leftOver).map(describeEntry)
    return [...left, ...recovery.errors, ...recovery.unknown, ...(await leave(supervisor))]
  },
  reap: async (supervisor) => {
    await supervisor.engine.begin()
    const reaper = new Reaper({ ...partsOf(supervisor.engine), reaper: { intervalMs: 1_000, minimumAgeMs: 0 } })
    await reaper.pass({ dryRun: false })
    const { left, errors } = await reaper.pass({ dryRun: false })
    return [...left.map(({ kind, name, why }) => `${kind} ${name} (${why})`), ...errors, ...(await leave(supervisor))]
  },
}

function openAgent({ engine, newId }: Supervisor): ScopeView {
  return engine.openScope({ id: newId(), kind: 'agent' })
}

async function leave({ engine }: Supervisor): Promise<readonly string[]> {
  return leftOver(await engine.shutDown()).map(describeEntry)
}

function describeEntry({ kind, name, error, outcome }: ResourceReport): string {
  return `${kind} ${name}: ${error ?? outcome}`
}

/** The command has a temp folder and leaves a file outside of it. Both have contents before the command prints its first line. */
function command(job: Job, script: string, hasToolLeftovers = true): Omit<Parameters<Supervisor['plan']>[1], 'output'> {
  const folder = join(job.workspace, 'traces')
  // The file is renamed into place: a process killed between creating and writing the file would leave a file without a mark.
  const trace = hasToolLeftovers ? `echo "$TMPDIR/x" >"$TMPDIR/trace" && mv "$TMPDIR/trace" '${folder}/left.sh'` : 'true'
  const leaving = `mkdir -p "$TMPDIR/a/b" && echo x >"$TMPDIR/a/b/c" && ${trace}`
  return {
    argv: ['/bin/sh', '-c', `${leaving}; ${script}`],
    env: environment(),
    cwd: job.workspace,
    stdin: { text: 'a prompt' },
    hasTempFolder: true,
    leaves: hasToolLeftovers ? [{ folder, name: '.+\\.sh' }] : [],
  }
}

function environment(): Record<string, string> {
  return Object.fromEntries(Object.entries(process.env).filter((entry): entry is [string, string] => entry[1] !== undefined))
}

function file(job: Job, name: string, path: string, dependsOn: readonly string[] = []): Planned {
  return planned({ label: label(name), kind: fileKind, spec: { workspace: job.workspace, path }, live: 'ours', dependsOn })
}

/** The plan of a folder, a file in it and one beside it, the logs, and the process tree, which depends on them all. */
function planWithLogs(supervisor: Supervisor, job: Job, scope: ScopeView, script: string): readonly Planned[] {
  const files: Planned[] = [
    planned({ label: label('folder'), kind: directoryKind, spec: { workspace: job.workspace, path: 'folder' } }),
    file(job, 'inner', 'folder/inner.txt', ['folder']),
    file(job, 'settings', 'settings.txt'),
  ]
  const plan = supervisor.plan(scope.id, { ...command(job, `${script}; echo line; exec sleep 600`), output: 'logs' })
  const names = files.map((one) => one.label)
  const needsFiles = (one: Planned): Planned =>
    one.label === treeLabel ? { ...one, dependsOn: [...(one.dependsOn ?? []), ...names] } : one
  return [...files, ...plan.map(needsFiles)]
}

function docker(...words: readonly string[]): string {
  return execFileSync('docker', ['--host', process.env.EBB_DOCKER_HOST ?? '', ...words], { encoding: 'utf8' }).trim()
}

/** The plan of an agent in a container. The environment variables of this process name the daemon and the image. */
function planDocker(supervisor: Supervisor, job: Job, scope: ScopeView): readonly Planned[] {
  return supervisor.plan(scope.id, {
    placement: 'docker',
    argv: ['/bin/sh', '-c', `${daemon}; echo line; exec sleep 600`],
    env: {},
    cwd: job.workspace,
    output: 'logs',
    stdin: { text: 'a prompt' },
  })
}

/**
 * The plan of an agent at a runner. The address of the runner is in the environment of this process. The agent's processes are recognised
 * by the path of the workspace.
 */
function planRemote(supervisor: Supervisor, job: Job, scope: ScopeView): readonly Planned[] {
  const command = ['/bin/sh', '-c', `${daemon}; echo line; exec sleep 600`]
  return supervisor.plan(scope.id, {
    placement: 'remote',
    argv: [],
    env: {},
    cwd: job.workspace,
    output: 'logs',
    stdin: { text: 'a prompt' },
    order: { agentId: scope.id, type: 'command', prompt: 'a prompt', configuration: { command, env: { EBB_TEST_PLACE: job.workspace } } },
  })
}

/** Resolves when the daemon runs and the agent has printed both lines. */
async function launchAndListen(supervisor: Supervisor, scope: ScopeView, plan: readonly Planned[]): Promise<void> {
  const handles = await supervisor.engine.launch(scope, plan)
  for (const log of logLabels) handles.get(log).done()
  const { path } = handles.get(logLabels[0])
  const { clock } = supervisor
  for (let output = ''; !output.includes('daemon') || !output.includes('line'); output = readFileSync(path, 'utf8')) {
    await new Promise<void>((resolve) => clock.after(1, new AbortController().signal, resolve))
  }
  say({ is: 'ready', effects: point.counts })
}

async function main(): Promise<void> {
  const config = loadConfig({
    flags: new Map([['home', job.home], ['containment', job.containment], ['logLevel', 'silent'], ...Object.entries(job.settings ?? {})]),
  })
  const wrap = <T extends object>(name: string, port: T): T => point.wrap(name, name === 'aws-times' ? { ...port, ...shortTimes } : port)
  const supervisor = await compose(config, { watched: job.watched, wrap })
  const left = await roles[job.role](supervisor, job)
  await supervisor.close()
  say({ is: 'done', effects: point.count, left })
}

main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`)
  process.exit(1)
})
