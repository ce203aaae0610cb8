import { existsSync, readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { installationOf, leftInHome } from '../../support/ledger-file.ts'
import { sessionsOf } from '../../support/tmux.ts'
import { describe, isMarked, isOfHome, processesWhere, type Seen } from '../../support/world.ts'
import { programs } from './programs.ts'
import type { Scene } from './scene.ts'

/** Finds everything that an agent left in a scene, without Ebb and without code of `src/`. */

/**
 * Processes of a scene, by mark, home, cgroup or working folder. No single property finds all: a daemon without environment has no mark or
 * home, and a process that changed its folder is not in the working folder.
 */
export function processesOf({ home, runnerHome, work, agentHome, name }: Scene): readonly Seen[] {
  const homes = [home, runnerHome].map((path) => ({ path, installation: installationOf(path) }))
  const folders = [work, agentHome]
  return processesWhere(
    (process) =>
      isMarked(process, name('')) ||
      homes.some(({ path, installation }) => isOfHome(process, path, installation)) ||
      folders.some((folder) => isAt(process.pid, folder)),
  )
}

function isAt(pid: number, folder: string): boolean {
  try {
    const at = readlinkSync(`/proc/${pid}/cwd`)
    return at === folder || at.startsWith(`${folder}/`)
  } catch {
    return false
  }
}

/** Ebb's own processes, which stay. They are recorded before an agent is launched. */
export type OwnProcesses = ReadonlySet<string>

const identity = ({ pid, startTime }: Seen): string => `${pid} ${startTime}`

export function ownProcessesOf(scene: Scene): OwnProcesses {
  return new Set(processesOf(scene).map(identity))
}

/** Everything that an agent may have left in this scene, each with its type. */
export function leftOf(scene: Scene, own: OwnProcesses): readonly string[] {
  return [...processesLeft(scene, own), ...sessionsOf(scene.home).map(({ name }) => `session ${name}`), ...filesLeft(scene)]
}

/** Fails when anything is left. It does not wait, because Ebb has reported that nothing is left. */
export function requireNothing(left: readonly string[]): void {
  if (left.length > 0) throw new Error(`These were left:\n  ${left.join('\n  ')}`)
}

export function processesLeft(scene: Scene, own: OwnProcesses): readonly string[] {
  return processesOf(scene)
    .filter((found) => !own.has(identity(found)) && !isTmuxServer(found, scene) && !isSentinel(found))
    .map((found) => `process ${describe(found)}`)
}

/** Whether a process is Ebb's tmux server, which stays for the next agent. */
function isTmuxServer({ command, argv }: Seen, { home }: Scene): boolean {
  return command === 'tmux: server' && argv.includes(join(home, 'tmux.sock'))
}

/**
 * Whether a process is Ebb's own sentinel. A dismissed sentinel may exit a moment after `ebb`; the guard of every test checks that it does.
 */
function isSentinel({ argv, environ }: Seen): boolean {
  return argv.startsWith('ebb-sentinel\0') && `\0${environ}`.includes('\0SENTINEL_NODE=')
}

function filesLeft(scene: Scene): readonly string[] {
  const leftovers = programs[scene.type].leftovers.flatMap(({ folder, name }) =>
    entries(join(scene.agentHome, folder))
      .filter((entry) => name.test(entry))
      .map((entry) => `leftover ${folder}/${entry}`),
  )
  const atRunner = leftInHome(scene.runnerHome).map((name) => `${name} of the runner`)
  return [...entries(scene.temp).map((entry) => `temporary ${entry}`), ...leftovers, ...leftInHome(scene.home), ...atRunner]
}

function entries(folder: string): readonly string[] {
  return existsSync(folder) ? readdirSync(folder) : []
}
