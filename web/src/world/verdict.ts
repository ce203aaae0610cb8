import type { WorldStatus } from '../api/closes.ts'
import { isWaiting } from '../cleanup/words.ts'
import type { Tone } from '../pieces/badge.tsx'
import { plural } from '../pieces/format.ts'

/** Is the world clean: what was counted, in words. */

export interface Verdict {
  readonly tone: Tone
  readonly badge: string
  readonly title: string
  readonly words: string
}

/** `silent` are the names of hosts that agents may be on, and that do not answer. */
export function verdictOf(status: WorldStatus, silent: readonly string[]): Verdict {
  const { agentCount, messageCount, runningProcesses, activeSubscriptions, leaks, stuck, heldBack } = status
  const held = totalOf(status)
  const { owed, waiting } = heldBackOf(status)
  const unlisted = leaks.filter(isUnreachable).length
  const unknown = silent.length > 0 ? ` Nobody can say what runs on ${silent.join(', ')}: its agents are unknown, not gone.` : ''
  const kept = agentCount > 0 ? `${plural(agentCount, 'agent')} on record with ${plural(messageCount, 'message')}` : ''
  if (status.isClean && unknown === '')
    return {
      tone: 'good',
      badge: 'clean',
      title: 'The world is clean',
      words: 'No process, no session, no file, no row and no subscription of an agent is left.',
    }
  if (stuck.length + leaks.length + heldBack.length > 0)
    return {
      tone: 'alarm',
      badge: 'not clean',
      title: 'Something is left',
      words: `${[
        ...(stuck.length > 0 ? [plural(stuck.length, 'stuck resource')] : []),
        ...(owed.length > 0 ? [`${plural(owed.length, 'resource')} held back`] : []),
        ...(waiting.length > 0 ? [`${waiting.length} waiting for what depends on them`] : []),
        ...(leaks.length > unlisted ? [plural(leaks.length - unlisted, 'leak')] : []),
        ...(unlisted > 0 ? [`${plural(unlisted, 'listing')} without an answer`] : []),
      ].join(', ')}. Each is named below.${unknown}`,
    }
  if (unknown !== '')
    return {
      tone: 'alarm',
      badge: 'not known',
      title: silent.length === 1 ? 'A host is unreachable' : `${silent.length} hosts are unreachable`,
      words: `${unknown.trim()} On the books are ${plural(held, 'resource')}; here ${plural(runningProcesses, 'process runs', 'processes run')}.`,
    }
  if (held + runningProcesses > 0)
    return {
      tone: 'live',
      badge: 'at work',
      title: 'Agents are at work',
      words: `${plural(runningProcesses, 'process', 'processes')} and ${plural(held, 'resource')} are held, each on the books; nothing has leaked and nothing is stuck.`,
    }
  const listening = activeSubscriptions > 0 ? ` ${plural(activeSubscriptions, 'subscription is', 'subscriptions are')} open.` : ''
  return {
    tone: 'good',
    badge: 'nothing left',
    title: 'Nothing of an agent is left',
    words: `No process and no resource is there. What stays is what was to stay: ${kept || 'nothing on record'}.${listening}`,
  }
}

export function totalOf({ resources }: WorldStatus): number {
  return Object.values(resources).reduce((sum, { held, closing, stuck }) => sum + held + closing + stuck, 0)
}

/** Some have something to be done first; others only wait for what depends on them, and there is no more to say of those. */
export function heldBackOf({ heldBack }: WorldStatus): { readonly owed: readonly string[]; readonly waiting: readonly string[] } {
  const waits = (thing: string): boolean => isWaiting({ error: thing })
  return { owed: heldBack.filter((thing) => !waits(thing)), waiting: heldBack.filter(waits).map((thing) => thing.replace(/: [^:]*$/, '')) }
}

/** A listing that brought no answer stands among the leaks as `kind: why`, a thing as `kind name`. */
export function isUnreachable(leak: string): boolean {
  return /^[a-z-]+: /.test(leak)
}

/** Of what is on another host, a resource of such a kind is on the books. */
const elsewhereKinds: readonly string[] = ['remote-agent', 'ecs-task']

export function isElsewhere({ resources }: WorldStatus): boolean {
  return elsewhereKinds.some((kind) => kind in resources)
}

const vouching: Readonly<Record<string, string>> = {
  cgroup: 'On this host the kernel vouches: each agent is in a cgroup of its own, which tells when it is empty.',
  subreaper: 'On this host the kernel vouches: a keeper adopts every descendant of an agent, and has reaped the last.',
  scan: 'On this host a scan vouches, which can miss a process that hides; "ebb doctor" says how to get a stronger containment.',
}

/** A kernel knows nothing of another host. */
export function voucherOf(containment: string, status: WorldStatus, silent: readonly string[]): string {
  const here = vouching[containment] ?? `On this host the containment ${containment} vouches.`
  if (silent.length > 0) return `${here} For agents elsewhere nobody vouches until their host answers.`
  return isElsewhere(status) ? `${here} For agents elsewhere the host that they are on vouches, for as long as it answers.` : here
}
