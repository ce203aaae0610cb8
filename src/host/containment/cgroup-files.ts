import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { errno } from '../../core/model/errors.ts'
import type { Effects } from '../../core/ports/effects.ts'
import { inFolder } from '../path.ts'

/** cgroups(7), cgroup v2: the kernel's files, and what they say. */

export interface CgroupMount {
  readonly mountPoint: string
  /** The directory of our own cgroup in it. */
  readonly own: string
}

/** Where cgroup v2 is mounted (not always at the root: hybrid set-ups have it at `unified`), and where we are in it. */
export function findCgroup2(mountinfo: string, selfCgroup: string): CgroupMount | undefined {
  const path = /^0::(.*)$/m.exec(selfCgroup)?.[1]
  return inOneOf(
    parseMounts(mountinfo).filter(({ type }) => type === 'cgroup2'),
    path,
  )
}

/** Where a v1 controller is mounted, for limits that v2 does not offer here. */
export function findController(mountinfo: string, selfCgroup: string, controller: string): CgroupMount | undefined {
  const line = selfCgroup.split('\n').find((candidate) => candidate.split(':')[1]?.split(',').includes(controller))
  const path = line?.split(':').slice(2).join(':')
  return inOneOf(
    parseMounts(mountinfo).filter(({ type, options }) => type === 'cgroup' && options.includes(controller)),
    path,
  )
}

/** A hierarchy may be mounted more than once, and a mount may show only a part of it. */
function inOneOf(mounts: readonly Mount[], path: string | undefined): CgroupMount | undefined {
  if (path === undefined) return undefined
  for (const mount of mounts) {
    const found = within(mount, path)
    if (found) return found
  }
  return undefined
}

/** A path that leads out of the mount (`/../..`, as seen from inside a cgroup namespace) is nothing we can use. */
function within(mount: Mount, path: string): CgroupMount | undefined {
  const inside =
    mount.root === '/' ? path : path === mount.root ? '/' : path.startsWith(`${mount.root}/`) ? path.slice(mount.root.length) : undefined
  if (inside === undefined || inside.includes('/..')) return undefined
  return { mountPoint: mount.point, own: join(mount.point, inside) }
}

interface Mount {
  readonly root: string
  readonly point: string
  readonly type: string
  readonly options: readonly string[]
}

function parseMounts(mountinfo: string): readonly Mount[] {
  return mountinfo.split('\n').flatMap((line) => {
    const [left = '', right = ''] = line.split(' - ')
    const [, , , root, point] = left.split(' ')
    const [type, , options = ''] = right.split(' ')
    return root && point && type ? [{ root: decodeOctal(root), point: decodeOctal(point), type, options: options.split(',') }] : []
  })
}

/** Blanks and backslashes come as octal (proc_pid_mountinfo(5)). */
function decodeOctal(path: string): string {
  return path.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)))
}

/** Does a living process stand in this cgroup or below it? Undefined when the cgroup is gone. */
export function isPopulated(directory: string): boolean | undefined {
  try {
    return /^populated 1$/m.test(readFileSync(join(directory, 'cgroup.events'), 'utf8'))
  } catch (error) {
    if (isGone(error)) return undefined
    throw error
  }
}

/** ENODEV is what a file of a cgroup answers that was removed while it was open. */
export function isGone(error: unknown): boolean {
  return errno(error) === 'ENOENT' || errno(error) === 'ENODEV'
}

/** By names that we give; what others have made may have names that are no text. */
export function subdirectories(directory: string): readonly string[] {
  return directoriesIn(directory).map(String)
}

function directoriesIn(directory: string | Buffer): readonly Buffer[] {
  try {
    return readdirSync(directory, { withFileTypes: true, encoding: 'buffer' })
      .filter((entry) => entry.isDirectory())
      .map((entry) => entry.name)
  } catch (error) {
    if (isGone(error)) return []
    throw error
  }
}

/** Every pid in the cgroup and below it; an agent may have made cgroups of its own. */
export function members(directory: string | Buffer): readonly number[] {
  return [...pidsIn(directory), ...directoriesIn(directory).flatMap((name) => members(inFolder(directory, name)))]
}

function pidsIn(directory: string | Buffer): readonly number[] {
  for (const file of ['cgroup.procs', 'cgroup.threads']) {
    try {
      return readFileSync(inFolder(directory, file), 'utf8').split('\n').filter(Boolean).map(Number)
    } catch (error) {
      if (isGone(error)) return []
      // A threaded cgroup does not answer for its processes, only for its threads.
      if (errno(error) !== 'EOPNOTSUPP' && errno(error) !== 'ENOTSUP') throw error
    }
  }
  return []
}

/** Removes an empty cgroup with everything below it. The kernel refuses (EBUSY) while a process is inside: that is the proof. */
export function removeCgroup(directory: string | Buffer, effects: Effects): void {
  for (const name of directoriesIn(directory)) removeCgroup(inFolder(directory, name), effects)
  try {
    effects.removeDirectory(directory)
  } catch (error) {
    if (!isGone(error)) throw error
  }
}

/** Where an installation's root may be: supervisors start in different cgroups, and all of them are looked through. */
export function findRoots(directory: string, name: string): readonly string[] {
  return subdirectories(directory).flatMap((entry) =>
    entry === name ? [join(directory, entry)] : entry.startsWith('ebb-') ? [] : findRoots(join(directory, entry), name),
  )
}
