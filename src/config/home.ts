import { readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { EbbError, errno, sentence } from '../core/model/errors.ts'
import type { Effects } from '../core/ports/effects.ts'
import type { NewId } from '../core/ports/ids.ts'
import { removeLostDrafts, unless, writeDraft } from './draft.ts'

/** The folder with the database, logs and sockets. Only its owner may read it: modes 0700 and 0600. */
export interface Home {
  readonly directory: string
  readonly installation: string
  readonly database: string
  readonly logs: string
  readonly archive: string
  readonly gates: string
  /** Files that agents need only while they run: configurations, prompts, and the pipes of their terminals. */
  readonly run: string
  readonly sentinelLog: string
}

export const databaseIn = (home: string): string => join(home, 'ebb.db')

export function openHome(directory: string, newId: NewId, effects: Effects): Home {
  const folders = {
    logs: join(directory, 'logs'),
    archive: join(directory, 'archive'),
    gates: join(directory, 'doors'),
    run: join(directory, 'run'),
  }
  try {
    makeFolders(directory, effects)
    const stat = statSync(directory)
    if (!stat.isDirectory()) throw new Error('it is not a directory')
    if (stat.uid !== process.getuid?.()) throw new Error('it belongs to another user')
    if ((stat.mode & 0o077) !== 0) closeToOthers(directory, effects)
    for (const folder of Object.values(folders)) makeFolders(folder, effects)
    return {
      directory,
      ...folders,
      installation: installationOf(directory, newId, effects),
      database: databaseIn(directory),
      sentinelLog: join(directory, 'sentinel.log'),
    }
  } catch (error) {
    if (error instanceof EbbError) throw error
    const hint = errno(error) === 'ENOSPC' ? 'free some space' : 'give another one with --home or EBB_HOME'
    throw new EbbError('home_unusable', `The home ${directory} cannot be used (${sentence(error)}); ${hint}.`, { cause: error })
  }
}

/**
 * Makes a folder and its parents, one by one. The option `recursive` of mkdirSync is not used: with it, mkdirSync reports ENOENT on a read-only file
 * system, and retries for ever on a file system that answers ENOENT itself, such as /proc. EEXIST is no error, because another process that
 * starts on the same home may make the same folder.
 */
function makeFolders(folder: string, effects: Effects): void {
  if (statSync(folder, { throwIfNoEntry: false })) return
  makeFolders(dirname(folder), effects)
  try {
    effects.makeDirectory(folder, 0o700)
  } catch (error) {
    if (errno(error) !== 'EEXIST') throw error
  }
}

/** Restricts the access to a home. A shared folder with other files in it, such as /tmp, is no home and is refused. */
function closeToOthers(directory: string, effects: Effects): void {
  const entries = readdirSync(directory)
  const isHome = entries.includes('installation.json') || entries.every((name) => name === 'ebb.config.json')
  if (!isHome) throw new Error('other users may read it, and it contains files that are not of Ebb')
  effects.changeMode(directory, 0o700)
}

interface Installation {
  readonly id: string
  readonly machine: string
}

/**
 * Reads or creates the installation's id. It is in a file of its own, so that resources can be found by their marks after the
 * database is lost. It is bound to the machine, so that a copied home does not own the resources of the original.
 */
function installationOf(directory: string, newId: NewId, effects: Effects): string {
  const file = join(directory, 'installation.json')
  const machine = machineId()
  removeLostDrafts(file, effects)
  const known = readInstallation(file)
  if (known?.machine === machine) return known.id
  const fresh: Installation = { id: newId().replaceAll('-', '').slice(0, 12), machine }
  const draft = writeDraft(file, JSON.stringify(fresh), effects)
  if (known) {
    effects.rename(draft, file)
    return fresh.id
  }
  // Two first starts may run at once. Then link(2) fails with EEXIST for the second one, which takes the id of the first one. A process in
  // another pid namespace may have removed this draft, because it took the writer for dead. Then that process stores an id of its own.
  unless(['EEXIST', 'ENOENT'], () => effects.link(draft, file))
  unless(['ENOENT'], () => effects.unlink(draft))
  const winner = readInstallation(file)
  if (!winner) throw new Error(`${file} is not readable as an installation; move it away`)
  return winner.id
}

function readInstallation(file: string): Installation | undefined {
  try {
    const content = JSON.parse(readFileSync(file, 'utf8')) as Partial<Installation>
    return /^[0-9a-f]{12}$/.test(content.id ?? '') ? (content as Installation) : undefined
  } catch {
    return undefined
  }
}

function machineId(): string {
  for (const file of ['/etc/machine-id', '/var/lib/dbus/machine-id']) {
    try {
      return readFileSync(file, 'utf8').trim()
    } catch {
      // Some machines have no file with a machine id at this path.
    }
  }
  return ''
}
