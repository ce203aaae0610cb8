import { existsSync, readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { installationOf, leftInHome } from '../../support/ledger-file.ts'
import { sessionsOf } from '../../support/tmux.ts'
import { describe, isMarked, isOfHome, processesWhere, type Seen } from '../../support/world.ts'
import { programs } from './programs.ts'
import type { Scene } from './scene.ts'

/** What is there of a scene, seen with our own eyes: none of it asks Ebb, or shares code with it. */

/** By mark, by home, by cgroup, and by the folder it works in: a daemon has none of the first, and a moved one not the last. */
export function processesOf({ home, runnerHome, work, agentHome, name }: Scene): readonly Seen[] {
  const homes = [home, runnerHome].map((path) => ({ path, installation: installationOf(path) }))
  const folders = [work, agentHome]
  return processesWhere(
    (one) =>
      isMarked(one, name('')) ||
      homes.some(({ path, installation }) => isOfHome(one, path, installation)) ||
      folders.some((folder) => isAt(one.pid, folder)),
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

/** Which processes are Ebb's own and stay: looked at before there is an agent. */
export type Staff = ReadonlySet<string>

const identity = ({ pid, startTime }: Seen): string => `${pid} ${startTime}`

export function staffOf(scene: Scene): Staff {
  return new Set(processesOf(scene).map(identity))
}

/** Everything that an agent may have left in this scene; each by a word that says what it is. */
export function leftOf(scene: Scene, staff: Staff): readonly string[] {
  return [...processesLeft(scene, staff), ...sessionsOf(scene.home).map(({ name }) => `session ${name}`), ...filesLeft(scene)]
}

/** At once: whoever said that nothing is left has looked. */
export function requireNothing(left: readonly string[]): void {
  if (left.length > 0) throw new Error(`These were left:\n  ${left.join('\n  ')}`)
}

export function processesLeft(scene: Scene, staff: Staff): readonly string[] {
  return processesOf(scene)
    .filter((one) => !staff.has(identity(one)) && !isTmuxServer(one, scene) && !isSentinel(one))
    .map((one) => `process ${describe(one)}`)
}

/** It stays for the next agent. */
function isTmuxServer({ command, argv }: Seen, { home }: Scene): boolean {
  return command === 'tmux: server' && argv.includes(join(home, 'tmux.sock'))
}

/** Ebb's own: dismissed, it may be a moment behind `ebb` itself. That it goes is for the guard of every test to see. */
function isSentinel({ argv, environ }: Seen): boolean {
  return argv.startsWith('ebb-sentinel\0') && `\0${environ}`.includes('\0SENTINEL_NODE=')
}

function filesLeft(scene: Scene): readonly string[] {
  const traces = programs[scene.type].traces.flatMap(({ folder, name }) =>
    entries(join(scene.agentHome, folder))
      .filter((entry) => name.test(entry))
      .map((entry) => `trace ${folder}/${entry}`),
  )
  const atRunner = leftInHome(scene.runnerHome).map((name) => `${name} of the runner`)
  return [...entries(scene.temp).map((entry) => `temporary ${entry}`), ...traces, ...leftInHome(scene.home), ...atRunner]
}

function entries(folder: string): readonly string[] {
  return existsSync(folder) ? readdirSync(folder) : []
}
