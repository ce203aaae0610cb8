import { releaseOrder } from '../model/plan.ts'
import { type ResourceReport, waitsForOthers } from '../model/report.ts'
import type { CloseOperation } from './close-operation.ts'
import type { EngineParts } from './parts.ts'
import type { Track } from './progress.ts'
import { type Released, release } from './release.ts'
import type { Entry, OwnedScope } from './scope-registry.ts'

/** The order in which the resources of a scope go. */

/**
 * In reverse order of dependency, each as soon as what depends on it is gone: a slow branch keeps no other one waiting. What
 * something that stays depends on waits with it (G7), unless the close is forced and it may stay behind.
 */
export async function releaseAll(parts: EngineParts, scope: OwnedScope, operation: CloseOperation): Promise<Released[]> {
  const open = [...scope.entries.values()].filter((entry) => entry.state !== 'released')
  const planned = releaseOrder(open.map((entry) => ({ id: entry.intent.id, dependsOn: entry.intent.dependsOn, entry })))
  const neededBelow = new Set(parts.registry.tree(scope.id).slice(1).flatMap(neededBy))
  const going = new Map<string, Promise<Released>>()
  const asked = new Map<string, Promise<void>>()
  const isYielding = (one: Entry, to: Entry): boolean => one.kind.yieldsByForceTo?.includes(to.intent.kind) ?? false
  const place = { scope: { kind: scope.kind, id: scope.label ?? scope.id }, namespace: parts.registry.namespaceOf(scope) }
  for (const { resource, after } of planned) {
    const { id, entry } = resource
    const track = operation.progress.track(entry, place, parts.clock)
    const wasAsked = Promise.withResolvers<void>()
    asked.set(id, wasAsked.promise)
    const go = async (): Promise<Released> => {
      const outOfTheWay = (one: { readonly id: string; readonly entry: Entry }): Promise<unknown> | undefined =>
        isYielding(one.entry, entry)
          ? Promise.race([going.get(one.id), Promise.all([operation.forced, asked.get(one.id)])])
          : going.get(one.id)
      await Promise.all(after.map(outOfTheWay))
      const staysBehind = (one: Entry): boolean => operation.policy.givesUp && isYielding(one, entry)
      const isNeeded = neededBelow.has(id) || after.some((one) => one.entry.state !== 'released' && !staysBehind(one.entry))
      const onAsked = wasAsked.resolve
      const result = isNeeded ? heldBack(entry, track) : await release({ entry, operation, clock: parts.clock, track, onAsked })
      logRelease(parts, scope, operation, result.report)
      return result
    }
    going.set(id, go())
  }
  return await Promise.all(going.values())
}

/** What the things that are still there in a scope below depend on. */
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
