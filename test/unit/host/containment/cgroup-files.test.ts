import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { findCgroup2, findController } from '../../../../src/host/containment/cgroup-files.ts'

const golden = (name: string): string => readFileSync(join(import.meta.dirname, '..', '..', '..', 'fixtures', 'golden', name), 'utf8')

const hybrid = golden('mountinfo-hybrid.txt')
const pure = golden('mountinfo-pure-v2.txt')
const container = golden('mountinfo-container.txt')

describe('findCgroup2', () => {
  it('finds our own cgroup on a pure v2 system', () => {
    expect(findCgroup2(pure, '0::/user.slice/user-1000.slice/session-3.scope\n')).toEqual({
      mountPoint: '/sys/fs/cgroup',
      own: '/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope',
    })
  })

  it('finds the v2 mount beside the v1 hierarchies of a hybrid system', () => {
    const self = '4:memory:/process_api/1de9\n1:name=systemd:/\n0::/\n'
    expect(findCgroup2(hybrid, self)).toEqual({ mountPoint: '/sys/fs/cgroup/unified', own: '/sys/fs/cgroup/unified/' })
  })

  it('finds the root of the mount inside a cgroup namespace', () => {
    expect(findCgroup2(container, '0::/\n')).toEqual({ mountPoint: '/sys/fs/cgroup', own: '/sys/fs/cgroup/' })
  })

  it('removes the mounted part from the path when a mount shows only a part of the hierarchy', () => {
    const part = '30 23 0:26 /machine.slice/box /cg rw - cgroup2 cgroup2 rw\n'
    expect(findCgroup2(part, '0::/machine.slice/box\n')).toEqual({ mountPoint: '/cg', own: '/cg/' })
    expect(findCgroup2(part, '0::/machine.slice/box/inner\n')).toEqual({ mountPoint: '/cg', own: '/cg/inner' })
  })

  it('ignores a mount that does not contain our own cgroup', () => {
    const part = '30 23 0:26 /machine.slice/box /cg rw - cgroup2 cgroup2 rw\n'
    expect(findCgroup2(part, '0::/machine.slice/boxer\n')).toBeUndefined()
    expect(findCgroup2(part, '0::/user.slice\n')).toBeUndefined()
  })

  it('ignores a path that leads out of the cgroup namespace', () => {
    expect(findCgroup2(container, '0::/../../other\n')).toBeUndefined()
    expect(findCgroup2(container, '0::/..\n')).toBeUndefined()
  })

  it('chooses the mount that contains our own cgroup when there are two', () => {
    const two = `30 23 0:26 /elsewhere /other rw - cgroup2 cgroup2 rw\n${pure}`
    expect(findCgroup2(two, '0::/init.scope\n')?.own).toBe('/sys/fs/cgroup/init.scope')
  })

  it('decodes octal escapes for spaces and backslashes in the mount point', () => {
    const odd = '30 23 0:26 / /mnt/my\\040cgroups\\134x rw - cgroup2 cgroup2 rw\n'
    expect(findCgroup2(odd, '0::/a b\n')).toEqual({ mountPoint: '/mnt/my cgroups\\x', own: '/mnt/my cgroups\\x/a b' })
  })

  it('finds nothing on a machine with only cgroup v1, or without cgroups', () => {
    const old = hybrid
      .split('\n')
      .filter((line) => !line.includes('cgroup2'))
      .join('\n')
    expect(findCgroup2(old, '4:memory:/\n0::/\n')).toBeUndefined()
    expect(findCgroup2(hybrid, '4:memory:/\n')).toBeUndefined()
    expect(findCgroup2('', '')).toBeUndefined()
    expect(findCgroup2('a broken line\n\n - \n', '0::/\n')).toBeUndefined()
  })
})

describe('findController', () => {
  const self = '8:pids:/\n4:memory:/process_api/1de9\n3:cpu,cpuacct:/x:y\n1:name=systemd:/\n0::/\n'

  it('finds our own cgroup in the hierarchy of a v1 controller', () => {
    expect(findController(hybrid, self, 'memory')).toEqual({
      mountPoint: '/sys/fs/cgroup/memory',
      own: '/sys/fs/cgroup/memory/process_api/1de9',
    })
    expect(findController(hybrid, self, 'pids')?.own).toBe('/sys/fs/cgroup/pids/')
  })

  it('finds a controller that shares its hierarchy, with a colon in the path', () => {
    const shared = '33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n'
    expect(findController(shared, self, 'cpuacct')?.own).toBe('/sys/fs/cgroup/cpu,cpuacct/x:y')
  })

  it('finds nothing when the controller is not mounted, has no cgroup of ours, or the name matches only in part', () => {
    expect(findController(pure, '0::/\n', 'memory')).toBeUndefined()
    expect(findController(hybrid, '0::/\n', 'memory')).toBeUndefined()
    expect(findController(hybrid, self, 'mem')).toBeUndefined()
    expect(findController(hybrid, self, 'systemd')).toBeUndefined()
  })
})
