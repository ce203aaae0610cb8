import { releaseOrder } from '../model/plan.ts'
import { type ResourceReport, waitsForOthers } from '../model/report.ts'
import type { CloseOperation } from './close-operation.ts'
import type { EngineParts } from './parts.ts'
import type { Track } from './progress.ts'
import { type Released, release } from './release.ts'
import type { Entry, OwnedScope } from './scope-registry.ts'

/** The order in which the resources of a scope are released. */

/**
 * Releases the resources of a scope in reverse order of dependency. Each release begins as soon as everything that depends on the resource
 * is gone, so a slow branch does not delay others. A resource is held back when something that depends on it stays (G7), except in a forced
 * close where the kinds allow it.
 */
export async function releaseAll(parts: EngineParts, scope: OwnedScope, operation: CloseOperation): Promise<Released[]> {
  const open = [...scope.entries.values()].filter((entry) => entry.state !== 'released')
  const planned = releaseOrder(open.map((entry) => ({ id: entry.intent.id, dependsOn: entry.intent.dependsOn, entry })))
  const neededBelow = new Set(parts.registry.tree(scope.id).slice(1).flatMap(neededBy))
  const going = new Map<string, Promise<Released>>()
  const killRequests = new Map<string, Promise<void>>()
  const isYielding = (dependent: Entry, to: Entry): boolean => dependent.kind.yieldsByForceTo?.includes(to.intent.kind) ?? false
  const place = { scope: { kind: scope.kind, id: scope.label ?? scope.id }, namespace: parts.registry.namespaceOf(scope) }
  for (const { resource, after } of planned) {
    const { id, entry } = resource
    const track = operation.progress.track(entry, place, parts.clock)
    const killRequested = Promise.withResolvers<void>()
    killRequests.set(id, killRequested.promise)
    const go = async (): Promise<Released> => {
      const waitFor = (dependent: { readonly id: string; readonly entry: Entry }): Promise<unknown> | undefined =>
        isYielding(dependent.entry, entry)
          ? Promise.race([going.get(dependent.id), Promise.all([operation.forced, killRequests.get(dependent.id)])])
          : going.get(dependent.id)
      await Promise.all(after.map(waitFor))
      const mayStay = (dependent: Entry): boolean => operation.policy.givesUp && isYielding(dependent, entry)
      const isNeeded = neededBelow.has(id) || after.some((dependent) => dependent.entry.state !== 'released' && !mayStay(dependent.entry))
      const onKillRequested = killRequested.resolve
      const result = isNeeded ? heldBack(entry, track) : await release({ entry, operation, clock: parts.clock, track, onKillRequested })
      logRelease(parts, scope, operation, result.report)
      return result
    }
    going.set(id, go())
  }
  return await Promise.all(going.values())
}

/** The ids of resources on which something still existing in the scope depends. */
function neededBy(scope: OwnedScope): readonly string[] {
  return [...scope.entries.values()].flatMap((entry) => (entry.state === 'released' ? [] : entry.intent.dependsOn))
}

function heldBack(entry: Entry, track: Track): Released {
  entry.error = waitsForOthers
  return { report: track.end({ outcome: 'held-back', error: waitsForOthers }), gaveUp: [] }
}

function logRelease(parts: EngineParts, scope: OwnedScope, operation: CloseOperation, report: ResourceReport): void {
  const fields = { trigger: operation.closeRequest.trigger, ...parts.registry.placeOf(scope), resource: report.name, kind: report.kind }
  if (report.outcome === 'released') parts.log.info(`Cleanup: released ${report.kind} ${report.name}.`, fields)
  else if (report.outcome === 'stuck') parts.log.error(`Cleanup: ${describeError(report)}`, fields)
  else parts.log.warn(`Cleanup: ${report.outcome} ${describeError(report)}`, fields)
}

export function describeError(report: ResourceReport): string {
  return `${report.kind} ${report.name}: ${report.error ?? report.outcome}`
}
