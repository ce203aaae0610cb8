import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Effects } from '../core/ports/effects.ts'
import { unless, writeDraft } from './draft.ts'

/** The file by which other commands find the server of a home. Only its owner may read it, because it may hold the token. */
export interface ServerFile {
  readonly url: string
  readonly pid: number
  readonly token?: string
  /** The server's database file, if it is not the one in the home. */
  readonly store?: string
}

const fileIn = (home: string): string => join(home, 'server.json')

export function writeServerFile(home: string, content: ServerFile, effects: Effects): void {
  effects.rename(writeDraft(fileIn(home), `${JSON.stringify(content)}\n`, effects), fileIn(home))
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

/** Removes the server file only if this process wrote it: a later server may have replaced it. */
export function removeServerFile(home: string, effects: Effects): void {
  if (readServerFile(home)?.pid !== process.pid) return
  unless(['ENOENT'], () => effects.unlink(fileIn(home)))
}
