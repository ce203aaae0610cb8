import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { errno } from '../../core/model/errors.ts'
import type { Effects } from '../../core/ports/effects.ts'
import { inFolder } from '../path.ts'

/** Reads and parses the kernel's files of cgroup v2 (cgroups(7)). */

export interface CgroupMount {
  readonly mountPoint: string
  /** The directory of the cgroup of this process below the mount point. */
  readonly own: string
}

/** Finds the mount point of cgroup v2 and the cgroup of this process. Hybrid systems mount cgroup v2 at `unified`, not at the root. */
export function findCgroup2(mountinfo: string, selfCgroup: string): CgroupMount | undefined {
  const path = /^0::(.*)$/m.exec(selfCgroup)?.[1]
  return inOneOf(
    parseMounts(mountinfo).filter(({ type }) => type === 'cgroup2'),
    path,
  )
}

/** The mount point of a v1 controller, for limits that v2 does not offer here. */
export function findController(mountinfo: string, selfCgroup: string, controller: string): CgroupMount | undefined {
  const line = selfCgroup.split('\n').find((candidate) => candidate.split(':')[1]?.split(',').includes(controller))
  const path = line?.split(':').slice(2).join(':')
  return inOneOf(
    parseMounts(mountinfo).filter(({ type, options }) => type === 'cgroup' && options.includes(controller)),
    path,
  )
}

/** The first mount that contains the path. A hierarchy may be mounted more than once, and a mount may show only a part of it. */
function inOneOf(mounts: readonly Mount[], path: string | undefined): CgroupMount | undefined {
  if (path === undefined) return undefined
  for (const mount of mounts) {
    const found = within(mount, path)
    if (found) return found
  }
  return undefined
}

/**
 * The directory of a cgroup below the mount; undefined for a path outside the mount. Inside a cgroup namespace such a path begins with
 * `/..`.
 */
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

/** proc_pid_mountinfo(5) writes spaces and backslashes as octal escapes. */
function decodeOctal(path: string): string {
  return path.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)))
}

/** Whether this cgroup or one below it holds a living process; undefined when the cgroup is gone. */
export function isPopulated(directory: string): boolean | undefined {
  try {
    return /^populated 1$/m.test(readFileSync(join(directory, 'cgroup.events'), 'utf8'))
  } catch (error) {
    if (isGone(error)) return undefined
    throw error
  }
}

/** ENODEV is the error of an open file whose cgroup was removed. */
export function isGone(error: unknown): boolean {
  return errno(error) === 'ENOENT' || errno(error) === 'ENODEV'
}

/**
 * The names of the subdirectories as text, for directories that Ebb has named. A name that another program gave need not be valid UTF-8.
 */
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

/** All pids in the cgroup and in those below it: an agent may make cgroups of its own. */
export function members(directory: string | Buffer): readonly number[] {
  return [...pidsIn(directory), ...directoriesIn(directory).flatMap((name) => members(inFolder(directory, name)))]
}

function pidsIn(directory: string | Buffer): readonly number[] {
  for (const file of ['cgroup.procs', 'cgroup.threads']) {
    try {
      return readFileSync(inFolder(directory, file), 'utf8').split('\n').filter(Boolean).map(Number)
    } catch (error) {
      if (isGone(error)) return []
      // A threaded cgroup lists only threads, not processes (cgroups(7)).
      if (errno(error) !== 'EOPNOTSUPP' && errno(error) !== 'ENOTSUP') throw error
    }
  }
  return []
}

/**
 * Removes an empty cgroup and those below it. The kernel refuses (EBUSY) while a process is inside, so a success proves that none is left.
 */
export function removeCgroup(directory: string | Buffer, effects: Effects): void {
  for (const name of directoriesIn(directory)) removeCgroup(inFolder(directory, name), effects)
  try {
    effects.removeDirectory(directory)
  } catch (error) {
    if (!isGone(error)) throw error
  }
}

/**
 * All directories with the name of an installation's root. Supervisors may start in different cgroups, so the whole hierarchy is
 * searched.
 */
export function findRoots(directory: string, name: string): readonly string[] {
  return subdirectories(directory).flatMap((entry) =>
    entry === name ? [join(directory, entry)] : entry.startsWith('ebb-') ? [] : findRoots(join(directory, entry), name),
  )
}
