import { spawn } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type Launch, type Started, throughShell, type Way } from '../way.ts'
import { spawnProgram } from './spawned.ts'

const ebb = join(import.meta.dirname, '..', '..', '..', 'bin', 'ebb')

export type Containment = 'cgroup' | 'subreaper' | 'scan'
const containments = ['cgroup', 'subreaper', 'scan'] as const

function execWay(containment: Containment): Way {
  return {
    name: `ebb-exec-${containment}`,
    title: `ebb exec, ${containment}`,
    how: `\`ebb exec --containment ${containment} -- CMD\`, then SIGTERM to it, then wait for its exit; code 3 would report that something is left`,
    start: async (launch) => {
      const home = join(launch.place.own, 'ebb')
      const options = ['--home', home, '--containment', containment, '--log-level', 'error']
      const spawned = await spawnProgram(launch, [ebb, 'exec', ...options, '--', ...launch.argv])
      return {
        stop: async () => {
          spawned.child.kill('SIGTERM')
          const exit = await spawned.exited
          return { isDone: !['exit code 3', 'exit code 125'].includes(exit), words: exit }
        },
      }
    },
  }
}

interface ServerVariant {
  /** True for a forced stop, comparable with the ways that begin with SIGKILL. */
  readonly force?: true
  /** True for a launch of the same argv as in all other ways, instead of an agent by its provider. */
  readonly asCommand?: true
}

/** The text of the document about the differences when Ebb launches an agent by its provider. The other ways run the plain command. */
export const byProvider =
  'an agent is launched by its provider: the prompt is on standard input, gemini gets `GEMINI_CLI_NO_RELAUNCH=true`, and the polite signal of claude and codex is SIGINT'

function serverWay(containment: Containment, { force, asCommand }: ServerVariant = {}): Way {
  const body = force ? { force } : {}
  const variant = (force && 'force') ?? (asCommand && 'command')
  const stopCall = `POST /api/agents/ID/stop${force ? ' {"force": true}' : ''}`
  const launched = asCommand ? '`"type": "command"` with the same argv as the ways without Ebb' : byProvider
  return {
    name: `ebb-server-${variant ?? containment}`,
    title: `ebb serve, ${containment}${force ? ', force' : ''}${asCommand ? ', any command' : ''}`,
    how: `\`ebb serve --containment ${containment}\`, \`POST /api/agents\`, then \`${stopCall}\`; \`success\` in its report; ${launched}`,
    start: async (launch) => {
      const server = await startEbbServer(launch, ['--containment', containment])
      try {
        const { id } = await server.post<{ id: string }>('/api/agents', asCommand ? commandOf(launch) : bodyOf(launch))
        return {
          stop: async () => {
            const { success, errors } = await server.post<StopReport>(`/api/agents/${id}/stop`, body)
            return { isDone: success, words: success ? 'success in the report' : errors.join('; ') }
          },
          end: server.end,
        }
      } catch (error) {
        await server.end()
        throw error
      }
    },
  }
}

export const ebbWays: readonly Way[] = [
  ...containments.map(execWay),
  ...containments.map((one) => serverWay(one)),
  serverWay('cgroup', { force: true }),
  serverWay('cgroup', { asCommand: true }),
]

export interface StopReport {
  readonly success: boolean
  readonly errors: readonly string[]
}

export interface EbbServer {
  readonly url: string
  post<T>(path: string, body: unknown): Promise<T>
  end: NonNullable<Started['end']>
}

/** Starts a server in a separate process, with its own temp folder, which contains the temp folders of its agents. */
export async function startEbbServer({ place, env }: Pick<Launch, 'place' | 'env'>, options: readonly string[]): Promise<EbbServer> {
  const temp = join(place.own, 't')
  mkdirSync(temp)
  place.tempFolders.push(temp)
  const words = ['serve', '--home', join(place.own, 'ebb'), '--port', '0', '--json', '--test-endpoints', '--log-level', 'error', ...options]
  const child = spawn(ebb, words, {
    env: { PATH: env.PATH, HOME: place.own, TMPDIR: temp },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const line = await new Promise<string>((resolve, reject) => {
    createInterface(child.stdout)
      .once('line', resolve)
      .once('close', () => reject(new Error('The server exited before it printed its address.')))
  })
  const { url } = JSON.parse(line) as { url: string }
  return {
    url,
    post: async <T>(path: string, body: unknown) => {
      const headers = { 'content-type': 'application/json' }
      const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
      if (!response.ok) throw new Error(`POST ${path} was answered with ${response.status}: ${await response.text()}`)
      return (await response.json()) as T
    },
    end: async () => {
      child.kill('SIGTERM')
      await ended
    },
  }
}

/** Launches an agent by its provider, and every other program as a command. The server sets TMPDIR. */
export function bodyOf(launch: Launch): Readonly<Record<string, unknown>> {
  if (!launch.agent) return commandOf(launch)
  const { type, prompt, configuration } = launch.agent
  return { type, prompt, configuration: { ...configuration, ...sharedOf(launch) } }
}

function commandOf(launch: Launch): Readonly<Record<string, unknown>> {
  return { type: 'command', prompt: '', configuration: { ...sharedOf(launch), command: throughShell(launch) } }
}

function sharedOf({ env: given, place }: Launch): Readonly<Record<string, unknown>> {
  const { TMPDIR: _, ...env } = given
  return { env, workingDirectory: place.work }
}
