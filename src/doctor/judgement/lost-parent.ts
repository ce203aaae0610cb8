import type { ProcessFact } from './process-fact.ts'

/** Has a process lost the parent that it was born to? The kernel does not say who that was: pid 1 and its like adopt orphans. */

export interface Loss {
  /** A sentence. */
  readonly says: string
  /** Where whoever adopted it also starts programs of its own, the loss has to show elsewhere. */
  readonly isProven: boolean
}

/** They adopt, and start nothing but services, which are known by their cgroup. */
const inits = /^(systemd|init|launchd|openrc-init|runit|runsvdir|s6-svscan|tini|dumb-init|docker-init|catatonit|busybox)$/

/** Of a container: they start one program, in their own session, and are gone when it is. */
const inContainers = /^(tini|dumb-init|docker-init|catatonit|init)$/

export function lostParent(one: ProcessFact, table: ReadonlyMap<number, ProcessFact>): Loss | undefined {
  const parent = table.get(one.ppid)
  // 0 is outside of this pid namespace, and who is not in the table came or went while we looked.
  if (one.pid === 1 || one.ppid === 0 || !parent) return undefined
  const isReaper = parent.pid === 1 || isUserManager(parent) || (inits.test(parent.command) && parent.command !== 'busybox')
  // A shell that is pid 1 of a container and its commands are one session; of an init, only the first is its own.
  const adopts = parent.pid === 1 && inContainers.test(parent.command) && one.pid !== firstChildOf(parent, table)
  if (one.sid === parent.sid && !adopts) return undefined
  const leader = one.sid !== one.pid && !table.has(one.sid)
  const group = one.pgid !== one.pid && !table.has(one.pgid)
  if (!isReaper) {
    if (!leader) return undefined
    return { says: `The session it was born in (${one.sid}) has ended, and ${nameOf(parent)} adopted it.`, isProven: true }
  }
  const adopter = parent.pid === 1 ? `pid 1 (${parent.command})` : nameOf(parent)
  return {
    says: `Its parent is gone: ${adopter} adopted it${leader ? ', and the session it was born in has ended, too' : ''}.`,
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
