import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { findCgroup2, findController } from '../../../../src/host/containment/cgroup-files.ts'

const golden = (name: string): string => readFileSync(join(import.meta.dirname, '..', '..', '..', 'fixtures', 'golden', name), 'utf8')

const hybrid = golden('mountinfo-hybrid.txt')
const pure = golden('mountinfo-pure-v2.txt')
const container = golden('mountinfo-container.txt')

describe('where cgroup v2 is', () => {
  it('at the usual place of a pure set-up, below our own cgroup', () => {
    expect(findCgroup2(pure, '0::/user.slice/user-1000.slice/session-3.scope\n')).toEqual({
      mountPoint: '/sys/fs/cgroup',
      own: '/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope',
    })
  })

  it('beside the old hierarchies of a hybrid set-up', () => {
    const self = '4:memory:/process_api/1de9\n1:name=systemd:/\n0::/\n'
    expect(findCgroup2(hybrid, self)).toEqual({ mountPoint: '/sys/fs/cgroup/unified', own: '/sys/fs/cgroup/unified/' })
  })

  it('in a cgroup namespace, where we are at the root of what is mounted', () => {
    expect(findCgroup2(container, '0::/\n')).toEqual({ mountPoint: '/sys/fs/cgroup', own: '/sys/fs/cgroup/' })
  })

  it('in a mount of a part of the hierarchy, the part is taken off the path', () => {
    const part = '30 23 0:26 /machine.slice/box /cg rw - cgroup2 cgroup2 rw\n'
    expect(findCgroup2(part, '0::/machine.slice/box\n')).toEqual({ mountPoint: '/cg', own: '/cg/' })
    expect(findCgroup2(part, '0::/machine.slice/box/inner\n')).toEqual({ mountPoint: '/cg', own: '/cg/inner' })
  })

  it('a mount that does not hold our own cgroup is of no use', () => {
    const part = '30 23 0:26 /machine.slice/box /cg rw - cgroup2 cgroup2 rw\n'
    expect(findCgroup2(part, '0::/machine.slice/boxer\n')).toBeUndefined()
    expect(findCgroup2(part, '0::/user.slice\n')).toBeUndefined()
  })

  it('a process outside the namespace of its cgroup sees a path that leads out, and does not follow it', () => {
    expect(findCgroup2(container, '0::/../../other\n')).toBeUndefined()
    expect(findCgroup2(container, '0::/..\n')).toBeUndefined()
  })

  it('of two mounts the one that holds us counts', () => {
    const two = `30 23 0:26 /elsewhere /other rw - cgroup2 cgroup2 rw\n${pure}`
    expect(findCgroup2(two, '0::/init.scope\n')?.own).toBe('/sys/fs/cgroup/init.scope')
  })

  it('blanks and backslashes in the mount point come as octal', () => {
    const odd = '30 23 0:26 / /mnt/my\\040cgroups\\134x rw - cgroup2 cgroup2 rw\n'
    expect(findCgroup2(odd, '0::/a b\n')).toEqual({ mountPoint: '/mnt/my cgroups\\x', own: '/mnt/my cgroups\\x/a b' })
  })

  it('nowhere, on a machine that has only the old one, or none', () => {
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

describe('where an old controller is', () => {
  const self = '8:pids:/\n4:memory:/process_api/1de9\n3:cpu,cpuacct:/x:y\n1:name=systemd:/\n0::/\n'

  it('in a hierarchy of its own, below our own cgroup', () => {
    expect(findController(hybrid, self, 'memory')).toEqual({
      mountPoint: '/sys/fs/cgroup/memory',
      own: '/sys/fs/cgroup/memory/process_api/1de9',
    })
    expect(findController(hybrid, self, 'pids')?.own).toBe('/sys/fs/cgroup/pids/')
  })

  it('in one that it shares, and with a colon in its path', () => {
    const shared = '33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n'
    expect(findController(shared, self, 'cpuacct')?.own).toBe('/sys/fs/cgroup/cpu,cpuacct/x:y')
  })

  it('nowhere, when it is not mounted, not ours, or only half of a name', () => {
    expect(findController(pure, '0::/\n', 'memory')).toBeUndefined()
    expect(findController(hybrid, '0::/\n', 'memory')).toBeUndefined()
    expect(findController(hybrid, self, 'mem')).toBeUndefined()
    expect(findController(hybrid, self, 'systemd')).toBeUndefined()
  })
})
