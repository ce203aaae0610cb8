import type { Engine } from '../core/engine/api.ts'
import { sentence } from '../core/model/errors.ts'
import type { Report } from '../core/model/report.ts'
import type { Resource } from '../core/model/resource.ts'
import type { ProcessDetails } from '../core/ports/process.ts'
import type { CleanupResult } from './types.ts'

export interface CleaningDeps {
  readonly engine: Engine
  readonly processesOf: (agentId: string) => Promise<readonly ProcessDetails[]>
  readonly archivedFiles: (agentId: string) => Promise<readonly string[]>
}

/** Verifies a close: observes each released resource again by its kind, and searches for processes independently. */
export async function verify(deps: CleaningDeps, agentId: string, report: Report): Promise<CleanupResult> {
  const errors: string[] = []
  const recordError = <T>(fallback: T) => {
    return (error: unknown): T => {
      errors.push(sentence(error))
      return fallback
    }
  }
  const archivedFiles = await deps.archivedFiles(agentId).catch(recordError<readonly string[]>([]))
  const resources = await deps.engine.resources(agentId).catch(recordError<readonly Resource[]>([]))
  const left = (await Promise.all(resources.map((resource) => whyLeft(deps.engine, resource)))).flatMap((why, at) =>
    why === undefined ? [] : [{ resource: resources[at] as Resource, why }],
  )
  const zombies = await deps.processesOf(agentId).catch(recordError<readonly ProcessDetails[] | undefined>(undefined))
  const isGone = (...kinds: readonly string[]): boolean => !left.some(({ resource }) => kinds.includes(resource.kind))
  const verifiedNoZombies = zombies?.length === 0
  const logFilesArchived = isGone('log')
  return {
    success: report.success && left.length === 0 && verifiedNoZombies && logFilesArchived && errors.length === 0,
    terminalClosed: !left.some(({ resource }) => deps.engine.traitsOf(resource.kind)?.isTerminal),
    promptFileDeleted: isGone('file'),
    logFilesArchived,
    verifiedNoZombies,
    zombies: zombies ?? [],
    errors: [...new Set([...report.errors, ...left.map(({ why }) => why), ...errors])],
    archivedFiles,
    report,
  }
}

/**
 * Returns why a resource is not gone, or undefined when it is gone. A released resource is observed again. For any other resource,
 * its state is the reason.
 */
async function whyLeft(engine: Engine, resource: Resource): Promise<string | undefined> {
  const what = `${resource.kind} ${resource.name}`
  if (resource.state !== 'released') return `${what}: ${resource.error ?? `it is still ${resource.state}`}`
  const presence = await engine.observe(resource, observationTimeoutMs)
  if (presence === undefined || presence.is === 'absent') return undefined
  return presence.is === 'present' ? `${what}: it exists again after it was released` : `${what}: ${presence.reason}`
}

/** How long one observation of a resource may take. A longer one counts as failed. */
const observationTimeoutMs = 5_000
