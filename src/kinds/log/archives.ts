// `promises` is imported from `node:fs`, where it is a lazy property. Loading it takes 4 ms, which a run that archives nothing does not
// spend.
import { existsSync, promises as files, type Stats } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { errno } from '../../core/model/errors.ts'
import type { Resource } from '../../core/model/resource.ts'
import { gainsByCompression } from '../../core/model/retention.ts'
import { type LogSpec, logKind } from '../../core/ports/agent-log.ts'
import type { ArchivedFile, Archives } from '../../core/ports/archives.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Effects } from '../../core/ports/effects.ts'
import { isOfKind } from '../../core/ports/kind.ts'
import { missingStep, refused, stagingPath } from '../../host/path.ts'
import { contentOf } from './content.ts'
import { archiveOf, confinedOf, streamOf } from './place.ts'

export type Recorded = Pick<Resource, 'id' | 'kind' | 'spec' | 'detail'>

export interface ArchivesDeps {
  readonly effects: Effects
  readonly clock: Clock
  /** The archive folder in the home. */
  readonly directory: string
  /** The resources of an agent's scope in the ledger. */
  readonly resources: (agentId: string) => Promise<readonly Recorded[]>
  /** Removes the folders of the given resources if they are empty now. */
  readonly leaveFolders?: (resources: readonly Recorded[]) => Promise<void>
  readonly onBytes?: (what: 'freed', bytes: number) => void
}

/** The possible endings of an archive. A crash may leave two of them; then the first in this list counts. */
const endings = ['', '.zst', '.gz'] as const

const order = ['stdout', 'progress', 'findings']

/** A half-made compressed file younger than this may belong to a running compression. A crash left an older one. */
const staleMs = 3_600_000

/** Errors of rmdir(2) for a folder that stays. A read-only file system answers EROFS before it checks whether the folder is empty. */
const stayCodes = ['ENOTEMPTY', 'EEXIST', 'ENOENT', 'EBUSY', 'EROFS', 'EACCES', 'EPERM']

interface ArchivedLog {
  readonly spec: LogSpec
  readonly path: string
  readonly staging: string
}

/** The archives that the ledger names. Other files, and paths through a symlink, are never touched (G10). */
export class LedgerArchives implements Archives {
  readonly #deps: ArchivesDeps

  constructor(deps: ArchivesDeps) {
    this.#deps = deps
  }

  async files(agentId: string): Promise<readonly ArchivedFile[]> {
    const found: ArchivedFile[] = []
    for (const log of await this.#logs(agentId)) {
      if (!this.#isReachable(log)) continue
      for (const ending of endings) {
        const path = `${log.path}${ending}`
        const bytes = await sizeOfFile(path)
        if (bytes === undefined) continue
        found.push({ stream: streamOf(log.spec), path, bytes, isCompressed: ending !== '' })
        break
      }
    }
    return found.toSorted((a, b) => rank(a) - rank(b))
  }

  async remove(agentId: string): Promise<void> {
    const own = join(this.#deps.directory, agentId)
    // The agent's folder is removed first, because that works without the database.
    await this.#removeFolder(own)
    const resources = await this.#deps.resources(agentId)
    for (const log of logsAmong(resources)) if (dirname(log.path) !== own) await this.#removeLog(log)
    await this.#unlessItStays(async () => await this.#deps.leaveFolders?.(resources))
  }

  async #removeFolder(folder: string): Promise<void> {
    // Most agents have no archive folder. Whether it exists is checked synchronously: with no free pid for its pool threads Node would
    // abort at the first asynchronous call (G12).
    if (!existsSync(folder)) return
    const bytes = await bytesIn(folder)
    if (bytes === undefined) return
    await this.#deps.effects.discard(folder)
    if (await findStat(folder)) throw new Error(`The archive ${folder} is still there after its removal; remove it by hand.`)
    if (bytes > 0) this.#deps.onBytes?.('freed', bytes)
  }

  /**
   * Removes an archive while its compression may be running. Without the archive no compression can begin, and without the half-made file
   * none that has begun can finish, so the files are removed in this order. Anything at these paths that is not a file does not belong to
   * Ebb.
   */
  async #removeLog(log: ArchivedLog): Promise<void> {
    const { effects, onBytes } = this.#deps
    if (!this.#requireOwnPath(log)) return
    for (const path of [log.path, log.staging, ...endings.slice(1).map((ending) => `${log.path}${ending}`)]) {
      const stat = await findStat(path)
      if (!stat) continue
      if (!stat.isFile()) throw refused(path, 'it is not the archive that Ebb made; check what is there, and remove it')
      await effects.discard(path)
      if (await findStat(path)) throw new Error(`The archive ${path} is still there after its removal; remove it by hand.`)
      if (stat.size > 0) onBytes?.('freed', stat.size)
    }
    // In a workspace the archive folder was made for its contents, so it is removed when it is empty.
    if (log.spec.inside?.archive.includes('/')) await this.#unlessItStays(() => effects.removeDirectory(dirname(log.path)))
  }

  /** Ignores errors about a folder that stays: it is not empty or may not be removed, but it holds nothing of this agent. */
  async #unlessItStays(leave: () => unknown): Promise<void> {
    try {
      await leave()
    } catch (error) {
      if (!stayCodes.includes(errno(error) ?? '')) throw error
    }
  }

  async compress(agentId: string, file: ArchivedFile): Promise<number> {
    const { path, bytes } = file
    const { effects, clock, onBytes } = this.#deps
    const log = (await this.#logs(agentId)).find((candidate) => candidate.path === path)
    if (!log || !gainsByCompression(file) || !this.#requireOwnPath(log)) return 0
    const begun = await findStat(log.staging)
    if (begun && Date.parse(clock.wall()) - begun.mtimeMs < staleMs) return 0
    if (begun) await effects.discard(log.staging)
    try {
      await effects.compress(path, log.staging)
    } catch (error) {
      if (errno(error) === 'EEXIST') return 0
      await effects.discard(log.staging)
      throw error
    }
    const after = (await sizeOfFile(log.staging)) ?? bytes
    this.#requireOwnPath(log)
    effects.rename(log.staging, `${path}.zst`)
    await effects.flush(dirname(path))
    await effects.discard(path)
    const freed = Math.max(0, bytes - after)
    if (freed > 0) onBytes?.('freed', freed)
    return freed
  }

  read({ path }: ArchivedFile): AsyncIterable<Uint8Array> {
    return contentOf(path)
  }

  async #logs(agentId: string): Promise<readonly ArchivedLog[]> {
    return logsAmong(await this.#deps.resources(agentId))
  }

  #isReachable(log: ArchivedLog): boolean {
    try {
      return this.#requireOwnPath(log)
    } catch {
      return false
    }
  }

  /** False when the folder of the archive does not exist. Throws for a path through a symlink or out of the home. */
  #requireOwnPath({ spec, path }: ArchivedLog): boolean {
    const { directory } = this.#deps
    return missingStep(confinedOf(spec, 'archive') ?? { workspace: directory, path: relative(directory, path) }) === undefined
  }
}

function rank({ stream }: ArchivedFile): number {
  const at = order.indexOf(stream)
  return at < 0 ? order.length : at
}

async function findStat(path: string): Promise<Stats | undefined> {
  try {
    return await files.lstat(path)
  } catch (error) {
    if (errno(error) === 'ENOENT' || errno(error) === 'ENOTDIR') return undefined
    throw error
  }
}

async function sizeOfFile(path: string): Promise<number | undefined> {
  const stat = await findStat(path)
  return stat?.isFile() ? stat.size : undefined
}

/** The total size of the files directly in a folder; undefined when there is no such folder. */
async function bytesIn(folder: string): Promise<number | undefined> {
  const stat = await findStat(folder)
  if (!stat?.isDirectory()) return stat?.size
  let bytes = 0
  for (const name of await namesIn(folder)) bytes += (await sizeOfFile(join(folder, name))) ?? 0
  return bytes
}

/** The entries of a folder; none when another removal was faster. */
async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return await files.readdir(folder)
  } catch (error) {
    if (errno(error) === 'ENOENT') return []
    throw error
  }
}

function logsAmong(resources: readonly Recorded[]): readonly ArchivedLog[] {
  return resources
    .filter((resource) => isOfKind(logKind, resource))
    .map(({ id, spec }) => {
      const path = archiveOf(spec)
      return { spec, path, staging: stagingPath(path, id) }
    })
}
