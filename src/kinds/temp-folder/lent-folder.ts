import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Vitality } from '../../core/model/identity.ts'
import type { Effects } from '../../core/ports/effects.ts'

/**
 * Temp folders for a question that takes seconds, such as one for a version, in the home and outside the ledger: each is
 * named after the supervisor that lent it out, and what one left that was killed goes with the next.
 */
export interface LentFolderDeps {
  readonly effects: Effects
  /** Of the home. */
  readonly directory: string
  readonly host: { readonly incarnationId: string; vitality(incarnationId: string): Vitality }
}

const prefix = 'lent-'

export class LentFolders {
  readonly #deps: LentFolderDeps
  readonly #inUse = new Set<string>()
  #count = 0

  constructor(deps: LentFolderDeps) {
    this.#deps = deps
  }

  async lend<T>(use: (path: string) => Promise<T>): Promise<T> {
    const { effects, directory, host } = this.#deps
    await this.#removeLost()
    const name = `${prefix}${host.incarnationId}_${++this.#count}`
    const path = join(directory, name)
    this.#inUse.add(name)
    try {
      effects.makeDirectory(path, 0o700)
      return await use(path)
    } finally {
      this.#inUse.delete(name)
      // Who still writes into it, or has mounted something there, keeps nobody from the answer; it is tried again with the next.
      await effects.removeFolder(path).catch(() => {})
    }
  }

  async #removeLost(): Promise<void> {
    const { effects, directory, host } = this.#deps
    for (const name of existsSync(directory) ? readdirSync(directory) : []) {
      const [incarnation = ''] = name.startsWith(prefix) ? name.slice(prefix.length).split('_') : []
      if (incarnation === '' || this.#inUse.has(name)) continue
      if (incarnation === host.incarnationId || host.vitality(incarnation) === 'dead')
        await effects.removeFolder(join(directory, name)).catch(() => {})
    }
  }
}
