import { sentence } from '../../domain/errors.ts'
import type { Report } from '../../domain/report.ts'
import type { Resource } from '../../domain/resource.ts'
import type { Engine } from '../../engine/engine.ts'
import { noLongerNeeded, within } from '../../engine/race.ts'
import type { ProcessDetails } from '../../ports/process.ts'
import type { CleanupResult } from './types.ts'

export interface CleaningDeps {
  readonly engine: Engine
  readonly processesOf: (agentId: string) => Promise<readonly ProcessDetails[]>
  readonly archivedFiles: (agentId: string) => Promise<readonly string[]>
}

/** After a close: what the books say is gone is looked at once more, by the same eyes, and the processes by others. */
export async function verify(deps: CleaningDeps, agentId: string, report: Report): Promise<CleanupResult> {
  const { ledger } = deps.engine.parts
  const errors: string[] = []
  const note = <T>(fallback: T) => {
    return (error: unknown): T => {
      errors.push(sentence(error))
      return fallback
    }
  }
  const archivedFiles = await deps.archivedFiles(agentId).catch(note<readonly string[]>([]))
  const resources = await ledger.resources(agentId).catch(note<readonly Resource[]>([]))
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

/** A released resource that is there again is told of; one that was never released says why itself. */
async function whyLeft({ parts }: Engine, resource: Resource): Promise<string | undefined> {
  const what = `${resource.kind} ${resource.name}`
  if (resource.state !== 'released') return `${what}: ${resource.error ?? `it is still ${resource.state}`}`
  const kind = parts.kinds.get(resource.kind)
  if (!kind) return undefined
  const lifetime = new AbortController()
  try {
    const looked = await within(parts.clock, lookMs, kind.observe(kind.name(resource), { signal: lifetime.signal, clock: parts.clock }))
    if (looked.timedOut) return `${what}: the look at it got no answer in time, so it is not known whether it is there again`
    const seen = looked.value
    if (seen.is === 'absent') return undefined
    return seen.is === 'present' ? `${what}: it is there again` : `${what}: ${seen.reason}`
  } catch (error) {
    return `${what}: ${sentence(error)}`
  } finally {
    lifetime.abort(noLongerNeeded)
  }
}

/** A look that takes longer is lost. */
const lookMs = 5_000
