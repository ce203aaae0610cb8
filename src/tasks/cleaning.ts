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

/** After a close: what the books say is gone is looked at once more, by the same eyes, and the processes by others. */
export async function verify(deps: CleaningDeps, agentId: string, report: Report): Promise<CleanupResult> {
  const errors: string[] = []
  const note = <T>(fallback: T) => {
    return (error: unknown): T => {
      errors.push(sentence(error))
      return fallback
    }
  }
  const archivedFiles = await deps.archivedFiles(agentId).catch(note<readonly string[]>([]))
  const resources = await deps.engine.resources(agentId).catch(note<readonly Resource[]>([]))
  const left = (await Promise.all(resources.map((resource) => whyLeft(deps.engine, resource)))).flatMap((why, at) =>
    why === undefined ? [] : [{ resource: resources[at] as Resource, why }],
  )
  const zombies = await deps.processesOf(agentId).catch(note<readonly ProcessDetails[] | undefined>(undefined))
  const isGone = (...kinds: readonly string[]): boolean => !left.some(({ resource }) => kinds.includes(resource.kind))
  const verifiedNoZombies = zombies?.length === 0
  const logFilesArchived = isGone('log')
  return {
    success: report.success && left.length === 0 && verifiedNoZombies && logFilesArchived && errors.length === 0,
    tmuxSessionKilled: isGone('tmux-session'),
    promptFileDeleted: isGone('file'),
    logFilesArchived,
    verifiedNoZombies,
    zombies: zombies ?? [],
    errors: [...new Set([...report.errors, ...left.map(({ why }) => why), ...errors])],
    archivedFiles,
    report,
  }
}

/** Why a resource is not gone: one that was released is observed again; one that never was says so itself. */
async function whyLeft(engine: Engine, resource: Resource): Promise<string | undefined> {
  const what = `${resource.kind} ${resource.name}`
  if (resource.state !== 'released') return `${what}: ${resource.error ?? `it is still ${resource.state}`}`
  const seen = await engine.observe(resource, lookMs)
  if (seen === undefined || seen.is === 'absent') return undefined
  return seen.is === 'present' ? `${what}: it is there again` : `${what}: ${seen.reason}`
}

/** An observation that takes longer counts as failed. */
const lookMs = 5_000
