import { type Agent, hasEnded } from '../core/model/agent.ts'
import { sentence } from '../core/model/errors.ts'
import { gainsByCompression, type KeptArchive, planRetention, type Reason, type RetentionRules } from '../core/model/retention.ts'
import { agentTypeOf } from '../core/model/task.ts'
import type { AgentStore } from '../core/ports/agents.ts'
import type { ArchivedFile, Archives } from '../core/ports/archives.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Log } from '../core/ports/log.ts'

export interface RetentionDeps {
  readonly store: Pick<AgentStore, 'list'>
  readonly archives: Archives
  readonly clock: Clock
  readonly log: Log
  readonly rules: RetentionRules
}

export interface AgentArchive extends KeptArchive {
  readonly agent: Agent
  readonly files: readonly ArchivedFile[]
}

export interface RetentionPass {
  readonly removed: readonly { readonly archive: AgentArchive; readonly why: Reason }[]
  readonly compressed: readonly AgentArchive[]
  /** The disk space that was freed. A dry run counts only the archives to remove: the gain of compression is not known in advance. */
  readonly freedBytes: number
  readonly errors: readonly string[]
}

/** Agents are read page by page, so that a pass over ten thousand does not block the event loop. */
const pageSize = 100

/** Archives are removed after days, so one pass an hour is enough. */
const leastIntervalMs = 3_600_000

/** Removes archives that are too old or too large, and compresses older ones. Handles only the archives of ended agents that have a row. */
export class Retention {
  readonly #deps: RetentionDeps
  #running: Promise<RetentionPass> | undefined

  constructor(deps: RetentionDeps) {
    this.#deps = deps
  }

  /** Runs a pass now, and then at most once an hour. */
  start(intervalMs: number, signal: AbortSignal): void {
    const { clock, log } = this.#deps
    const pass = (): void => {
      this.pass({ dryRun: false, signal })
        .then(({ errors }) => errors.forEach((error) => void log.warn('An archive could not be removed or compressed.', { error })))
        // A shutdown closes the database during a pass; that failure is expected.
        .catch((error: unknown) => {
          if (!signal.aborted) log.error('The retention pass over the archives failed.', { error: sentence(error) })
        })
    }
    pass()
    clock.every(Math.max(intervalMs, leastIntervalMs), signal, pass)
  }

  /** Yields all archives that exist, in no order. */
  async *archives(): AsyncIterable<AgentArchive> {
    const { store, archives } = this.#deps
    for (let cursor: string | undefined; ; ) {
      const page = await store.list({ limit: pageSize, ...(cursor !== undefined && { cursor }) })
      for (const agent of page.agents.filter(hasEnded)) {
        const files = await archives.files(agent.id)
        if (files.length > 0) yield archiveOf(agent, files)
      }
      if (page.nextCursor === undefined) return
      cursor = page.nextCursor
    }
  }

  /** Concurrent passes join into one. A dry run always runs by itself. */
  async pass(options: { readonly dryRun: boolean; readonly signal?: AbortSignal }): Promise<RetentionPass> {
    if (options.dryRun) return await this.#pass(options)
    this.#running ??= this.#pass(options).finally(() => {
      this.#running = undefined
    })
    return await this.#running
  }

  async #pass({ dryRun, signal }: { readonly dryRun: boolean; readonly signal?: AbortSignal }): Promise<RetentionPass> {
    const { archives, clock, rules, log } = this.#deps
    const all: AgentArchive[] = []
    for await (const archive of this.archives()) {
      if (signal?.aborted) break
      all.push(archive)
    }
    const plan = planRetention(all, rules, Date.parse(clock.wall()))
    const pass = {
      removed: [] as RetentionPass['removed'][number][],
      compressed: [] as AgentArchive[],
      freedBytes: 0,
      errors: [] as string[],
    }
    for (const going of plan.going) {
      if (signal?.aborted) break
      const { agentId, bytes } = going.archive
      const isGone = dryRun || (await attempt(pass.errors, agentId, () => archives.remove(agentId)))
      if (!isGone) continue
      pass.removed.push(going)
      pass.freedBytes += bytes
      if (!dryRun) log.info('An archive was removed.', { agent: agentId, bytes, why: going.why })
    }
    for (const archive of plan.compressing) {
      if (signal?.aborted) break
      const freed = dryRun ? 0 : await this.#compress(archive, pass.errors)
      if (!dryRun && freed === 0) continue
      pass.compressed.push(archive)
      pass.freedBytes += freed
    }
    return pass
  }

  async #compress({ agentId, files }: AgentArchive, errors: string[]): Promise<number> {
    let freed = 0
    for (const file of files.filter(gainsByCompression))
      await attempt(errors, agentId, async () => {
        freed += await this.#deps.archives.compress(agentId, file)
      })
    return freed
  }
}

/** Records a failure, so that one archive does not stop the pass. */
async function attempt(errors: string[], agentId: string, work: () => Promise<void>): Promise<boolean> {
  try {
    await work()
    return true
  } catch (error) {
    errors.push(`archive of agent ${agentId}: ${sentence(error)}`)
    return false
  }
}

function archiveOf(agent: Agent, files: readonly ArchivedFile[]): AgentArchive {
  return {
    agent,
    agentId: agent.id,
    agentType: agent.name === undefined ? agent.type : agentTypeOf(agent.name),
    ...(agent.taskId !== undefined && { taskId: agent.taskId }),
    endedMs: Date.parse(agent.completedAt ?? agent.createdAt),
    bytes: files.reduce((sum, { bytes }) => sum + bytes, 0),
    gains: files.some(gainsByCompression),
    files,
  }
}
