import type { SystemStatus } from '../api/closes.ts'
import type { Labels } from '../api/labels.tsx'
import { isWaiting } from '../cleanup/words.ts'
import type { Tone } from '../pieces/badge.tsx'
import { plural } from '../pieces/format.ts'

/** The state of the system as a sentence, from the counts of the status. */

export interface Verdict {
  readonly tone: Tone
  readonly badge: string
  readonly title: string
  readonly text: string
}

/** `unreachableHosts` are the names of hosts that may run agents and do not answer. */
export function verdictOf(status: SystemStatus, unreachableHosts: readonly string[]): Verdict {
  const { agentCount, messageCount, runningProcesses, activeSubscriptions, leaks, stuck, heldBack } = status
  const held = totalOf(status)
  const { blocked, waiting } = heldBackOf(status)
  const failedListings = leaks.filter(isFailedListing).length
  const unknown = unreachableHosts.length > 0 ? ` Cannot reach ${unreachableHosts.join(', ')}: agents there are unknown, not gone.` : ''
  const records = agentCount > 0 ? `${plural(agentCount, 'agent')} with ${plural(messageCount, 'message')}` : ''
  if (status.isClean && unknown === '')
    return {
      tone: 'good',
      badge: 'clean',
      title: 'The system is clean',
      text: 'No process, session, file, row or subscription of an agent is left.',
    }
  if (stuck.length + leaks.length + heldBack.length > 0)
    return {
      tone: 'alarm',
      badge: 'not clean',
      title: 'Something is left',
      text: `${[
        ...(stuck.length > 0 ? [plural(stuck.length, 'stuck resource')] : []),
        ...(blocked.length > 0 ? [`${plural(blocked.length, 'resource')} held back`] : []),
        ...(waiting.length > 0 ? [`${waiting.length} waiting for their dependents`] : []),
        ...(leaks.length > failedListings ? [plural(leaks.length - failedListings, 'leak')] : []),
        ...(failedListings > 0 ? [`${plural(failedListings, 'failed listing')}`] : []),
      ].join(', ')}. Each is named below.${unknown}`,
    }
  if (unknown !== '')
    return {
      tone: 'alarm',
      badge: 'unknown',
      title: unreachableHosts.length === 1 ? 'A host is unreachable' : `${unreachableHosts.length} hosts are unreachable`,
      text: `${unknown.trim()} Recorded in the ledger: ${plural(held, 'resource')}. Running on this host: ${plural(runningProcesses, 'process', 'processes')}.`,
    }
  if (held + runningProcesses > 0)
    return {
      tone: 'live',
      badge: 'running',
      title: 'Agents are running',
      text: `${plural(runningProcesses, 'process', 'processes')} and ${plural(held, 'resource')}, all recorded in the ledger. Nothing has leaked and nothing is stuck.`,
    }
  const listening = activeSubscriptions > 0 ? ` ${plural(activeSubscriptions, 'subscription is', 'subscriptions are')} open.` : ''
  return {
    tone: 'good',
    badge: 'nothing left',
    title: 'No resources are left',
    text: `No process and no resource of an agent is left. Records kept: ${records || 'none'}.${listening}`,
  }
}

export function totalOf({ resources }: SystemStatus): number {
  return Object.values(resources).reduce((sum, { held, closing, stuck }) => sum + held + closing + stuck, 0)
}

/** Splits the held-back resources into those with an unmet obligation and those that only wait for their dependents. */
export function heldBackOf({ heldBack }: SystemStatus): { readonly blocked: readonly string[]; readonly waiting: readonly string[] } {
  const waits = (entry: string): boolean => isWaiting({ error: entry })
  return {
    blocked: heldBack.filter((entry) => !waits(entry)),
    waiting: heldBack.filter(waits).map((entry) => entry.replace(/: [^:]*$/, '')),
  }
}

/** The server reports a failed listing among the leaks as `kind: reason`, and a leaked resource as `kind name`. */
export function isFailedListing(leak: string): boolean {
  return /^[a-z-]+: /.test(leak)
}

export function hasRemoteResources({ resources }: SystemStatus, labels: Labels): boolean {
  return Object.keys(resources).some((kind) => labels.kind(kind)?.isOnOtherHost)
}

const containmentTexts: Readonly<Record<string, string>> = {
  cgroup: 'Proof on this host: the kernel. Each agent has its own cgroup, and the kernel reports when it is empty.',
  subreaper:
    'Proof on this host: the kernel. A subreaper process adopts every descendant of an agent and waits until it has reaped the last one.',
  scan: 'Proof on this host: a scan, which can miss a process that hides. "ebb doctor" explains how to get a stronger containment.',
}

/** Explains where the proofs come from. This host's kernel cannot prove anything about another host. */
export function proofSourceOf(containment: string, status: SystemStatus, unreachableHosts: readonly string[], labels: Labels): string {
  const local = containmentTexts[containment] ?? `Containment on this host: ${containment}.`
  if (unreachableHosts.length > 0) return `${local} There is no proof for agents on other hosts until those hosts answer.`
  return hasRemoteResources(status, labels) ? `${local} For agents on other hosts, those hosts provide the proof.` : local
}
