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
 * One agent's world, to throw away: a model, a home for `ebb`, one for its runner, one for the agent, a folder to work in and
 * one for temporary files. What a tool or an MCP server of it starts has a name in its arguments that begins with the test's mark: that is
 * how it is found, also without an environment.
 */
export interface Scene extends AsyncDisposable {
  readonly type: AgentType
  readonly model: ScriptedModel
  readonly home: string
  /** Of the runner, where there is one. */
  readonly runnerHome: string
  readonly agentHome: string
  readonly work: string
  readonly temp: string
  /** Of the agent. */
  readonly env: Readonly<Record<string, string>>
  /** Of whoever runs `ebb`. */
  readonly ebbEnv: Readonly<Record<string, string | undefined>>
  name(of: string): string
  /** A file by which a tool says something. */
  file(of: string): string
}

export type Placement = 'process' | 'tmux' | 'remote' | 'docker'

export const prompt = 'Do as the script says.'
/** Four programs that take seconds to start, on cores that others use too. */
export const patienceMs = 180_000
export const habits = ['leaves', 'lingers', 'deaf'] as const

export async function openScene(type: AgentType): Promise<Scene> {
  // Not deeper: the path of a socket has 108 bytes, and agents make some in their temporary folders.
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

/** At the port of the one before it, where there was one: whoever knows that looks there. */
export function openRunner(scene: Scene, before?: TestServer): Promise<TestServer> {
  const at = before && { port: new URL(before.url).port }
  // Nobody else takes that port between the two.
  return startServer(['--runner', '--host', ownAddress], { home: scene.runnerHome, env: scene.ebbEnv, ...at })
}

/** Settles when each of them runs. */
export async function stands(scene: Scene, names: readonly string[]): Promise<void> {
  const missing = (): readonly string[] => names.filter((name) => named(scene.name(name)).length === 0)
  await waitUntil(missing, patienceMs, 'what the agent was told to start runs')
}

/** Three servers, by what they do when their client goes; each with a child. */
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

/** For `POST /api/agents`. */
export function launchBody(scene: Scene, { placement, hasMcp }: Launch): object {
  const { tell, hasOwnServersOnly } = programs[scene.type]
  const servers = hasMcp ? mcpServers(scene) : []
  if (hasOwnServersOnly) tell(scene.agentHome, servers)
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
