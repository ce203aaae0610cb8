import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { EbbError, errno } from '../../core/model/errors.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { Limits } from '../../core/ports/process.ts'
import { findCgroup2, findController, removeCgroup, subdirectories } from './cgroup-files.ts'
import type { Tree } from './containment.ts'

/**
 * Limits on the memory and the number of processes of a run. They are set by the v2 controllers when our cgroup has them, else by the
 * v1 controllers in separate directories, which are released with the tree.
 */

const controllers = ['memory', 'pids'] as const
type Controller = (typeof controllers)[number]

function wanted(limits: Limits): readonly Controller[] {
  return controllers.filter((controller) => (controller === 'memory' ? limits.memoryBytes : limits.pids) !== undefined)
}

function sources(): { mountinfo: string; self: string } {
  return { mountinfo: readFileSync('/proc/self/mountinfo', 'utf8'), self: readFileSync('/proc/self/cgroup', 'utf8') }
}

function offeredByV2(): readonly string[] {
  const { mountinfo, self } = sources()
  const own = findCgroup2(mountinfo, self)?.own
  return own ? readFileSync(join(own, 'cgroup.controllers'), 'utf8').trim().split(' ') : []
}

/** Path prefixes of the v1 directories that the limits need; empty when v2 has the controllers. Throws when neither version has one. */
export function limitPlaces(limits: Limits, prefix: string): readonly string[] {
  const { mountinfo, self } = sources()
  return wanted(limits)
    .filter((controller) => !offeredByV2().includes(controller))
    .map((controller) => {
      const mount = findController(mountinfo, self, controller)
      if (!mount) {
        throw new EbbError(
          'limits_unavailable',
          `This machine offers Ebb no ${controller} controller, so the ${controller} limit cannot be enforced; leave it out, or see "ebb doctor".`,
        )
      }
      return join(mount.own, prefix)
    })
}

/** Sets the limits. Returns the gates that the child must enter besides that of its own cgroup. */
export function applyLimits(tree: Tree, limits: Limits | undefined, effects: Effects): readonly string[] {
  if (!limits) return []
  const places = [...tree.limitPlaces]
  const gates: string[] = []
  for (const controller of wanted(limits)) {
    const value = String(controller === 'memory' ? limits.memoryBytes : limits.pids)
    if (offeredByV2().includes(controller)) {
      enableV2(tree.place, controller, value, effects)
      continue
    }
    const place = places.shift() ?? ''
    effects.makeDirectory(place, 0o755)
    effects.write(join(place, controller === 'memory' ? 'memory.limit_in_bytes' : 'pids.max'), value)
    gates.push(join(place, 'cgroup.procs'))
  }
  return gates
}

/** Removes v1 limit directories whose record was lost, if they are empty. They are found by name in the whole hierarchy. */
export function removeLostLimits(prefix: string, effects: Effects): void {
  const { mountinfo, self } = sources()
  for (const controller of controllers) {
    const mount = findController(mountinfo, self, controller)
    for (const directory of mount ? startingWith(mount.mountPoint, prefix) : []) {
      try {
        removeCgroup(directory, effects)
      } catch (error) {
        if (errno(error) !== 'EBUSY') throw error
      }
    }
  }
}

function startingWith(directory: string, prefix: string): readonly string[] {
  return subdirectories(directory).flatMap((name) => {
    const path = join(directory, name)
    return name.startsWith(prefix) ? [path] : startingWith(path, prefix)
  })
}

/** A controller must be enabled in every parent. The kernel refuses (EBUSY) where a parent holds processes itself. */
function enableV2(directory: string, controller: Controller, value: string, effects: Effects): void {
  // The parent cgroups, from our own cgroup down. `directory` is `…/ebb-INSTALLATION/INCARNATION/end/RESOURCE`.
  const parents = [
    dirname(dirname(dirname(dirname(directory)))),
    dirname(dirname(dirname(directory))),
    dirname(dirname(directory)),
    dirname(directory),
  ]
  try {
    for (const parent of parents) effects.write(join(parent, 'cgroup.subtree_control'), `+${controller}`)
    effects.write(join(directory, `${controller}.max`), value)
  } catch (error) {
    throw new EbbError(
      'limits_unavailable',
      `The kernel does not let Ebb set a ${controller} limit here (${errno(error) ?? 'refused'}); start Ebb in a cgroup that is delegated to it, see "ebb doctor".`,
      { cause: error },
    )
  }
}
