import { existsSync, readFileSync, renameSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errno } from '../core/model/errors.ts'

/** The file by which other commands find the server of a home. Only its owner may read it, because it may hold the token. */
export interface ServerFile {
  readonly url: string
  readonly pid: number
  readonly token?: string
  /** The server's database file, if it is not the one in the home. */
  readonly store?: string
}

const fileIn = (home: string): string => join(home, 'server.json')

export function writeServerFile(home: string, content: ServerFile): void {
  const draft = `${fileIn(home)}.${process.pid}`
  writeFileSync(draft, `${JSON.stringify(content)}\n`, { mode: 0o600 })
  renameSync(draft, fileIn(home))
}

export function readServerFile(home: string): ServerFile | undefined {
  try {
    const content = JSON.parse(readFileSync(fileIn(home), 'utf8')) as Partial<ServerFile>
    return typeof content.url === 'string' && typeof content.pid === 'number' ? (content as ServerFile) : undefined
  } catch {
    return undefined
  }
}

/**
 * The database of the server of a home, also of a server that was killed. Undefined when the database is the one in the home, or no longer
 * exists.
 */
export function storeOfServer(home: string): string | undefined {
  const store = readServerFile(home)?.store
  return typeof store === 'string' && existsSync(store) ? store : undefined
}

/** Removes the file only if this process wrote it: a later server may have replaced it. */
export function removeServerFile(home: string): void {
  if (readServerFile(home)?.pid !== process.pid) return
  try {
    unlinkSync(fileIn(home))
  } catch (error) {
    if (errno(error) !== 'ENOENT') throw error
  }
}
