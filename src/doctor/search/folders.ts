import { lstatSync, readdirSync, type Stats, unlinkSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { errno, sentence } from '../../core/model/errors.ts'
import { nextTurn } from '../../core/ports/turn.ts'
import { inFolder } from '../../host/path.ts'
import { removeFolder } from '../../host/remove-folder.ts'
import type { Leftover, LeftoverEnd } from '../judgement/leftover.ts'
import { type FileFact, type FilesFact, judgeFiles } from '../judgement/leftover-files.ts'
import type { ProcessFact } from '../judgement/process-fact.ts'
import { openFiles } from './open-files.ts'
import { namesIn, quietly, seesAllProcesses } from './proc-facts.ts'
import { agentsIn } from './processes.ts'

/** Files that killed agents leave in the temp folder and in their own. Only what is this user's, and never through a link. */
export interface FolderPlace {
  readonly temp: string
  readonly environment: Readonly<Record<string, string>>
  /** As for processes. */
  readonly only?: ((pid: number) => boolean) | undefined
}

/** A folder is measured as far as this; then it is at least so large. */
const mostEntries = 20_000

/** `table` is without those that will be ended. */
export async function findFolders(place: FolderPlace, table: ReadonlyMap<number, ProcessFact>): Promise<readonly Leftover[]> {
  const facts = [...(await temporary(place.temp)), ...snapshots(place.environment)].filter(({ files }) => files.length > 0)
  if (facts.length === 0) return []
  const open = await openFiles(table, new Set(), [...new Set(facts.flatMap(({ files }) => files.map(({ path }) => path)))])
  const agents = agentsIn(table)
    .filter(({ pid }) => place.only?.(pid) ?? true)
    .map(({ pid, program }) => ({ program, startedAtMs: table.get(pid)?.startedAtMs ?? 0 }))
  const scene = { agents, open: open.paths, isPartial: open.unreadable.length > 0 || !seesAllProcesses(), nowMs: Date.now() }
  return facts.flatMap((fact) => judgeFiles(fact, scene) ?? [])
}

async function temporary(temp: string): Promise<readonly FilesFact[]> {
  const names = namesIn(temp) ?? []
  const uid = process.getuid?.() ?? 0
  const own = join(temp, `claude-${uid}`)
  const folders = [
    ...names
      .filter((name) => name.startsWith('gemini-shell-'))
      .map((name) => ['gemini', 'temporary files of a shell', join(temp, name)] as const),
    ...(isOwnFolder(own) ? tasksBelow(own, 3) : []).map((path) => ['claude', 'output of tools', path] as const),
  ]
  const found: FilesFact[] = []
  for (const [program, what, path] of folders) {
    const stat = ownStat(path)
    if (!stat?.isDirectory() && !stat?.isFile()) continue
    const file = stat.isFile() ? fileOf(path, stat) : await measured(path)
    found.push({ place: path, isFolder: true, what: `${what} of ${program}`, program, files: [file] })
  }
  const places = names.filter((name) => /^claude-[0-9a-f]{4,}-cwd$/.test(name)).map((name) => join(temp, name))
  return [...found, filesFact(temp, 'notes of claude on where its shell was', 'claude', places)]
}

/** `claude-UID/PROJECT/SESSION/tasks`. */
function tasksBelow(folder: string, depth: number): readonly string[] {
  return (namesIn(folder) ?? []).flatMap((name) => {
    const path = join(folder, name)
    if (!isOwnFolder(path)) return []
    if (name === 'tasks') return [path]
    return depth > 1 ? tasksBelow(path, depth - 1) : []
  })
}

function snapshots({ HOME = '', CLAUDE_CONFIG_DIR, CODEX_HOME }: Readonly<Record<string, string>>): readonly FilesFact[] {
  const folders = [
    ['claude', join(CLAUDE_CONFIG_DIR || join(HOME, '.claude'), 'shell-snapshots'), /^snapshot-.+\.sh$/],
    ['codex', join(CODEX_HOME || join(HOME, '.codex'), 'shell_snapshots'), /.\.sh$/],
  ] as const
  return folders
    .filter(([, folder]) => isAbsolute(folder) && isOwnFolder(folder))
    .map(([program, folder, pattern]) => {
      const paths = (namesIn(folder) ?? []).filter((name) => pattern.test(name)).map((name) => join(folder, name))
      return filesFact(folder, `shell snapshots of ${program}`, program, paths)
    })
}

function filesFact(place: string, what: string, program: string, paths: readonly string[]): FilesFact {
  const files = paths.flatMap((path) => {
    const stat = ownStat(path)
    return stat?.isFile() ? [fileOf(path, stat)] : []
  })
  return { place, isFolder: false, what, program, files }
}

const blockBytes = 512

const fileOf = (path: string, stat: Stats): FileFact => ({ path, changedAtMs: stat.mtimeMs, sizeBytes: stat.blocks * blockBytes })

function ownStat(path: string): Stats | undefined {
  const stat = quietly(() => lstatSync(path))
  return stat?.uid === process.getuid?.() ? stat : undefined
}

const isOwnFolder = (path: string): boolean => ownStat(path)?.isDirectory() ?? false

/** The size of all, and the last change of any: by names as they are, which need not be UTF-8. */
async function measured(folder: string): Promise<FileFact> {
  const queue: Buffer[] = [Buffer.from(folder)]
  let sizeBytes = 0
  let changedAtMs = 0
  let count = 0
  // The queue grows while it is walked.
  for (const path of queue) {
    if (++count > mostEntries) break
    if (count % 500 === 0) await nextTurn()
    const stat = quietly(() => lstatSync(path))
    if (!stat) continue
    sizeBytes += stat.blocks * blockBytes
    changedAtMs = Math.max(changedAtMs, stat.mtimeMs)
    const names = stat.isDirectory() ? quietly(() => readdirSync(path, { encoding: 'buffer' })) : undefined
    for (const name of names ?? []) queue.push(inFolder(path, name))
  }
  return { path: folder, changedAtMs, sizeBytes }
}

/** `one` was looked at a moment ago, and `paths` are those of it that had been shown. */
export async function endFiles(one: Leftover, paths: readonly string[]): Promise<Pick<LeftoverEnd, 'outcome' | 'steps' | 'says'>> {
  const began = performance.now()
  const problems: string[] = []
  for (const path of paths) {
    try {
      const stat = ownStat(path)
      if (stat?.isDirectory()) await removeFolder(path)
      else if (stat?.isFile()) unlinkSync(path)
    } catch (error) {
      if (errno(error) !== 'ENOENT') problems.push(sentence(error))
    }
  }
  const steps = [{ step: 'remove', took: Math.round(performance.now() - began) }] as const
  const left = paths.filter((path) => quietly(() => lstatSync(path)) !== undefined)
  if (left.length > 0) return { outcome: 'left', steps, says: problems[0] ?? `${left[0]} is still there.` }
  return {
    outcome: 'gone',
    steps,
    says: one.paths.length === 1 ? 'It is not there any more.' : `None of the ${paths.length} files is there any more.`,
  }
}
