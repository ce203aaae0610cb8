import { describe, expect, it } from 'vitest'
import { environmentTag, type Mark } from '../../../../src/core/model/identity.ts'
import type { Tree } from '../../../../src/host/containment/containment.ts'
import { findMembers } from '../../../../src/host/containment/scan.ts'
import type { ProcessEntry } from '../../../../src/host/processes/process-table.ts'

/** The supervisor has pid 50 and start time 1000. The main process of its tree has pid 100 and start time 2000. */
const mark: Mark = { installation: 'a1b2c3d4e5f6', incarnation: 'ab564ffa7180-4026531836-50-1000', resourceId: 'agent.1' }
const tree: Tree = {
  mark,
  spec: { containment: 'scan', installation: mark.installation, program: 'agent', place: '/gates/' },
  main: { pid: 100, startTime: '2000' },
  place: '/gates/agent.1',
  limitPlaces: [],
}
const self = 50

/** A process: by default a child of init, in its own session, started after the tree, without tags. */
function entry(pid: number, more: Partial<ProcessEntry> = {}): ProcessEntry {
  return { pid, ppid: 1, pgid: pid, sid: pid, state: 'S', startTime: '3000', command: 'x', environmentTags: undefined, ...more }
}

const init = entry(1, { ppid: 0, startTime: '1' })
const supervisor = entry(self, { startTime: '1000' })
const main = entry(100, { ppid: self, startTime: '2000', environmentTags: environmentTag(mark) })

const known = (): Map<number, ProcessEntry> => new Map()
function members(entries: readonly ProcessEntry[], seen = known()): readonly number[] {
  return findMembers(tree, [init, supervisor, ...entries], seen, self).map(({ pid }) => pid)
}

describe('findMembers includes', () => {
  it('the main process and its descendants, in any order of the list', () => {
    const child = entry(101, { ppid: 100 })
    const grandchild = entry(102, { ppid: 101 })
    expect(members([grandchild, child, main])).toEqual([102, 101, 100])
  })

  it('a process with the environment tag, also after the tag of an outer Ebb', () => {
    const outer = environmentTag({ ...mark, installation: 'ffffffffffff' })
    expect(members([entry(200, { environmentTags: `${outer}:${environmentTag(mark)}` })])).toEqual([200])
  })

  it('the main process without an environment tag, by pid and start time', () => {
    expect(members([{ ...main, environmentTags: undefined }])).toEqual([100])
  })

  it('a daemon that cleared its environment, by the session that a member leads', () => {
    expect(members([main, entry(101, { sid: 100, pgid: 101 })])).toEqual([100, 101])
  })

  it('a daemon in the process group that a member leads', () => {
    expect(members([main, entry(101, { sid: 999, pgid: 100 })])).toEqual([100, 101])
  })

  it('processes of a session or group whose leader has ended', () => {
    const seen = known()
    expect(members([main], seen)).toEqual([100])
    expect(members([entry(101, { sid: 100 })], seen)).toEqual([101])
    expect(members([entry(102, { pgid: 100 })], seen)).toEqual([102])
  })

  it('a child that was found before, when its parent has ended and it has its own session', () => {
    const seen = known()
    members([main, entry(101, { ppid: 100 })], seen)
    expect(members([entry(101, { ppid: 1 })], seen)).toEqual([101])
  })

  it('the children of a process that was found by its session', () => {
    expect(members([main, entry(101, { sid: 100 }), entry(102, { ppid: 101 })])).toEqual([100, 101, 102])
  })
})

describe('findMembers excludes (G10)', () => {
  it('the supervisor, its other children, init and its children', () => {
    expect(members([main, entry(60, { ppid: self }), entry(61)])).toEqual([100])
  })

  it('the supervisor itself, even when it carries the tag of the tree', () => {
    const nested = { ...supervisor, environmentTags: environmentTag(mark) }
    expect(findMembers(tree, [nested, main], known(), self).map(({ pid }) => pid)).toEqual([100])
  })

  it('a process with the tag of another resource or installation, or with a similar text', () => {
    const others = [{ resourceId: 'agent.10' }, { resourceId: 'agent' }, { installation: 'ffffffffffff' }]
    const environmentTags = [
      ...others.map((other) => environmentTag({ ...mark, ...other })),
      `x${environmentTag(mark)}`,
      `${environmentTag(mark)}/more`,
      '',
    ]
    expect(members(environmentTags.map((text, index) => entry(200 + index, { environmentTags: text })))).toEqual([])
  })

  it('a process with the pid of the main process and another start time', () => {
    expect(members([entry(100, { startTime: '5000' })])).toEqual([])
  })

  it('a process with the pid of an earlier member and another start time, and its children', () => {
    const seen = known()
    members([main, entry(101, { ppid: 100 })], seen)
    expect(members([entry(101, { startTime: '9000' }), entry(300, { ppid: 101, startTime: '9001' })], seen)).toEqual([])
  })

  it('a session whose number a member led before, when a later process leads it now', () => {
    const seen = known()
    members([main], seen)
    const stranger = entry(100, { startTime: '9000' })
    expect(members([stranger, entry(301, { sid: 100, pgid: 100, startTime: '9001' })], seen)).toEqual([])
  })

  it('other processes of a session that a member is in but does not lead', () => {
    const terminal = { sid: 40, pgid: 40 }
    const shell = entry(40, { startTime: '500', ...terminal })
    expect(members([shell, { ...main, ...terminal }, entry(41, { startTime: '2500', ...terminal })])).toEqual([100])
  })

  it('a process that is older than the supervisor, whatever its tags and its parent', () => {
    const old = { startTime: '999' }
    expect(
      members([
        main,
        entry(200, { ...old, environmentTags: environmentTag(mark) }),
        entry(201, { ...old, ppid: 100 }),
        entry(202, { ...old, sid: 100 }),
      ]),
    ).toEqual([100])
  })

  it('a process that is older than the leader of its session', () => {
    expect(members([main, entry(200, { sid: 100, pgid: 200, startTime: '1500' })])).toEqual([100])
  })

  it('a process that is older than its parent', () => {
    expect(members([main, entry(200, { ppid: 100, startTime: '1500' })])).toEqual([100])
  })

  it('everything when the process table is empty', () => {
    expect(findMembers(tree, [], known(), self)).toEqual([])
  })
})
