import type { ProcessFact } from './process-fact.ts'

/** Decides whether a process has lost its original parent. The kernel does not record that parent: pid 1 or a subreaper adopts orphans. */

export interface Loss {
  /** A sentence that says how the parent was lost, for the evidence. */
  readonly says: string
  /** False when the process that adopted the orphan also starts programs of its own, so that it may have started this one. */
  readonly isProven: boolean
}

/** Init programs: they adopt orphans, and start only services, which are recognised by their cgroup. */
const inits = /^(systemd|init|launchd|openrc-init|runit|runsvdir|s6-svscan|tini|dumb-init|docker-init|catatonit|busybox)$/

/** Init programs of containers: they start one program in their own session, and exit when it exits. */
const inContainers = /^(tini|dumb-init|docker-init|catatonit|init)$/

export function lostParent(fact: ProcessFact, table: ReadonlyMap<number, ProcessFact>): Loss | undefined {
  const parent = table.get(fact.ppid)
  // Parent 0 is outside of this pid namespace. A parent that is not in the table started or ended during the scan.
  if (fact.pid === 1 || fact.ppid === 0 || !parent) return undefined
  const isReaper = parent.pid === 1 || isUserManager(parent) || (inits.test(parent.command) && parent.command !== 'busybox')
  // A process in the session of its parent has not lost that parent: a shell that is pid 1 of a container shares its session with its
  // commands. An init that is pid 1 started only the first process of its session, and has adopted the others.
  const adopts = parent.pid === 1 && inContainers.test(parent.command) && fact.pid !== firstChildOf(parent, table)
  if (fact.sid === parent.sid && !adopts) return undefined
  const leader = fact.sid !== fact.pid && !table.has(fact.sid)
  const group = fact.pgid !== fact.pid && !table.has(fact.pgid)
  if (!isReaper) {
    if (!leader) return undefined
    return { says: `The session it was started in (${fact.sid}) has ended, and ${nameOf(parent)} adopted it.`, isProven: true }
  }
  const adopter = parent.pid === 1 ? `pid 1 (${parent.command})` : nameOf(parent)
  return {
    says: `Its parent is gone: ${adopter} adopted it${leader ? ', and the session it was started in has ended, too' : ''}.`,
    isProven: leader || group || inits.test(parent.command) || isUserManager(parent),
  }
}

function firstChildOf(parent: ProcessFact, table: ReadonlyMap<number, ProcessFact>): number | undefined {
  const children = [...table.values()].filter(({ ppid }) => ppid === parent.pid)
  return children.toSorted((a, b) => Number(a.startTime) - Number(b.startTime) || a.pid - b.pid)[0]?.pid
}

function isUserManager({ command, argv }: ProcessFact): boolean {
  return command === 'systemd' && argv.includes('--user')
}

function nameOf({ command, pid }: ProcessFact): string {
  return `${command} (pid ${pid})`
}
