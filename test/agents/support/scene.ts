import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type ScriptedModel, startScriptedModel } from '../../../src/scripted-model/index.ts'
import { ownAddress } from '../../support/cut-network.ts'
import { nodeProgram, root, temporaryHome } from '../../support/home.ts'
import { currentMark } from '../../support/mark.ts'
import { startServer, type TestServer } from '../../support/server.ts'
import { waitUntil } from '../../support/world.ts'
import { named } from './named.ts'
import { type AgentType, clis, impersonal, type McpServer, programs } from './programs.ts'

/**
 * The isolated environment of one agent: a scripted model, homes for `ebb`, its runner and the agent, a working folder and a folder for
 * temporary files. Processes of its tools and MCP servers have an argument that begins with the test's mark, so they are found even
 * without an environment.
 */
export interface Scene extends AsyncDisposable {
  readonly type: AgentType
  readonly model: ScriptedModel
  readonly home: string
  /** The home of the runner, if the placement has one. */
  readonly runnerHome: string
  readonly agentHome: string
  readonly work: string
  readonly temp: string
  /** The environment of the agent. */
  readonly env: Readonly<Record<string, string>>
  /** The environment of `ebb`. */
  readonly ebbEnv: Readonly<Record<string, string | undefined>>
  name(of: string): string
  /** A file through which a tool signals the test. */
  file(of: string): string
}

export type Placement = 'process' | 'tmux' | 'remote' | 'docker'

export const prompt = 'Do as the script says.'
/** The deadline for the start of the agent's programs. On a busy machine, four programs start that each take seconds. */
export const patienceMs = 180_000
export const habits = ['leaves', 'lingers', 'deaf'] as const

export async function openScene(type: AgentType): Promise<Scene> {
  // A short path: a socket path has at most 108 bytes, and agents create sockets in their temporary folders.
  const base = temporaryHome()
  const folder = (name: string): string => {
    const path = join(base, name)
    mkdirSync(path, { mode: 0o700 })
    return path
  }
  const [home, runnerHome, agentHome, work, temp] = [folder('e'), folder('r'), folder('a'), folder('w'), folder('t')]
  const model = await startScriptedModel()
  const mark = currentMark()
  return {
    type,
    model,
    home,
    runnerHome,
    agentHome,
    work,
    temp,
    env: await model.homeFor(type, agentHome),
    ebbEnv: {
      ...impersonal(),
      TMPDIR: temp,
      HOME: agentHome,
      PATH: [clis, dirname(nodeProgram), process.env.PATH].join(':'),
    },
    name: (of) => `${mark}${of}`,
    file: (of) => join(work, of),
    [Symbol.asyncDispose]: () => model.close(),
  }
}

export function openServer(scene: Scene, words: readonly string[]): Promise<TestServer> {
  return startServer(words, { home: scene.home, env: scene.ebbEnv })
}

/** Starts a runner at the port of the runner before it, because the server looks for the runner at that port. */
export function openRunner(scene: Scene, before?: TestServer): Promise<TestServer> {
  const at = before && { port: new URL(before.url).port }
  // No other process takes the port between the end of the earlier runner and the start of this one, because the loopback address belongs
  // to this test process.
  return startServer(['--runner', '--host', ownAddress], { home: scene.runnerHome, env: scene.ebbEnv, ...at })
}

/** Waits until a process of each name runs. */
export async function stands(scene: Scene, names: readonly string[]): Promise<void> {
  const missing = (): readonly string[] => names.filter((name) => named(scene.name(name)).length === 0)
  await waitUntil(missing, patienceMs, 'the processes that the agent was told to start run')
}

/** Three MCP servers, named by what they do when their client leaves. Each has a child. */
export function mcpServers(scene: Scene): readonly McpServer[] {
  return habits.map((habit) => ({
    name: habit,
    command: nodeProgram,
    args: [join(root, 'test', 'fixtures', 'serves-mcp.ts'), habit, scene.name(habit), scene.file(`${habit}.ready`)],
  }))
}

export interface Launch {
  readonly placement: Placement
  readonly hasMcp: boolean
}

/** The body for `POST /api/agents`. */
export function launchBody(scene: Scene, { placement, hasMcp }: Launch): object {
  const { configureMcp, hasOwnServersOnly } = programs[scene.type]
  const servers = hasMcp ? mcpServers(scene) : []
  if (hasOwnServersOnly) configureMcp(scene.agentHome, servers)
  return {
    type: scene.type,
    prompt,
    placement,
    requestId: requestOf(scene),
    configuration: {
      workingDirectory: scene.work,
      env: scene.env,
      ...(hasMcp && !hasOwnServersOnly && { mcp: { servers } }),
    },
  }
}

export function requestOf(scene: Scene): string {
  return `request-${scene.name('')}`
}
