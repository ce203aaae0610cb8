import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Vitality } from '../../core/model/identity.ts'
import type { Effects } from '../../core/ports/effects.ts'

/**
 * Temp folders for probes that take seconds, such as a version query. They are in the home and not in the ledger. The name of each contains
 * the incarnation that made it. Folders of a supervisor that was killed are removed by the next `lend`.
 */
export interface LentFolderDeps {
  readonly effects: Effects
  /** The folder in the home for these folders. */
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
      // A failed removal (a program still writes there, or has mounted something) must not fail the probe; the next `lend` tries again.
      await effects.removeFolder(path).catch(() => {})
    }
  }

  async #removeLost(): Promise<void> {
    const { effects, directory, host } = this.#deps
    for (const name of existsSync(directory) ? readdirSync(directory) : []) {
      const [incarnation = ''] = name.startsWith(prefix) ? name.slice(prefix.length).split('_') : []
      if (incarnation === '' || this.#inUse.has(name)) continue
      // A failed removal must not fail the probe; the next `lend` tries again.
      if (incarnation === host.incarnationId || host.vitality(incarnation) === 'dead')
        await effects.removeFolder(join(directory, name)).catch(() => {})
    }
  }
}
