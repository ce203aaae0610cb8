import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Effects } from '../../ports/effects.ts'

/** The archived logs of one agent: gone when it returns, or it throws. */
export function removeArchive(effects: Effects, directory: string, agentId: string): void {
  const folder = join(directory, agentId)
  if (existsSync(folder)) effects.removeTree(folder)
  if (existsSync(folder)) throw new Error(`The archive ${folder} is still there.`)
}
