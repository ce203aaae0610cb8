import { existsSync, lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Effects } from '../../ports/effects.ts'

/** The archived logs of one agent: gone when it returns, with how many bytes they had, or it throws. */
export function removeArchive(effects: Effects, directory: string, agentId: string): number {
  const folder = join(directory, agentId)
  if (!existsSync(folder)) return 0
  const bytes = readdirSync(folder).reduce((sum, name) => sum + lstatSync(join(folder, name)).size, 0)
  effects.removeTree(folder)
  if (existsSync(folder)) throw new Error(`The archive ${folder} is still there.`)
  return bytes
}
