import { lstatSync } from 'node:fs'
import { errno } from '../../core/model/errors.ts'
import type { LadderStep } from '../../core/model/ladder.ts'
import { absent, type Presence, type Proof, present } from '../../core/model/resource.ts'
import type { Effects } from '../../core/ports/effects.ts'
import { type Created, type Ctx, type IntentOf, kindName, type LabelledKind, type StepEffect } from '../../core/ports/kind.ts'
import { type FileVersion, type Leftover, type ToolLeftoversSpec, versionOf } from './sighted.ts'

/** The ledger's name of this kind, `traces`, is older than the term "tool leftovers" and stays, because ledgers contain it. */
export const toolLeftoversKind = kindName<{ spec: ToolLeftoversSpec }>('traces')

/**
 * Tool leftovers: files that an agent program writes in folders of the user, removes when it ends normally, and leaves when it is killed.
 * Ebb makes none of them. It removes only files that contain a mark of the agent (G10). Conversations belong to the user and are not
 * leftovers.
 */
export class ToolLeftoversKind implements LabelledKind<typeof toolLeftoversKind, ToolLeftoversSpec> {
  readonly kind = toolLeftoversKind
  readonly label = { title: 'Tool leftovers' }
  readonly outlivesPower = true
  readonly #effects: Effects

  constructor(effects: Effects) {
    this.#effects = effects
  }

  name({ spec }: IntentOf<typeof toolLeftoversKind>): ToolLeftoversSpec {
    return spec
  }

  describe({ places }: ToolLeftoversSpec): string {
    return places.map(({ folder }) => folder).join(', ')
  }

  steps(): readonly LadderStep[] {
    return ['kill']
  }

  async create(): Promise<Created<typeof toolLeftoversKind>> {
    return {}
  }

  async observe(spec: ToolLeftoversSpec, ctx: Ctx): Promise<Presence> {
    const [first] = await this.#find(spec, ctx)
    if (first) return present(first.path)
    return absent({ method: 'no file in these folders contains its mark', strength: 'scan', at: ctx.clock.wall() })
  }

  async release(spec: ToolLeftoversSpec, _step: LadderStep, ctx: Ctx): Promise<StepEffect> {
    for (const { kin, ...own } of await this.#find(spec, ctx)) for (const file of [...kin, own]) this.#unlink(file)
    return {}
  }

  async gone(spec: ToolLeftoversSpec, ctx: Ctx): Promise<Proof> {
    const seen = await this.observe(spec, ctx)
    if (seen.is !== 'absent') throw new Error(`Leftovers in ${this.describe(spec)} are still there`)
    return seen.proof
  }

  /** Lists nothing: folders of users are not searched without a record. Leftovers are found through the ledger. */
  async *list(): AsyncIterable<never> {}

  /** Loads the search on first use, because `ebb exec` does not need it and must start fast. */
  async #find(spec: ToolLeftoversSpec, { signal }: Ctx): Promise<readonly Leftover[]> {
    return await (await import('./search.ts')).findToolLeftovers(spec, signal)
  }

  /**
   * Some file names contain only a pid. Another program may have written its own file there since the search, so the version is compared
   * (G10).
   */
  #unlink({ path, version }: FileVersion): void {
    try {
      if (versionOf(lstatSync(path)) === version) this.#effects.unlink(path)
    } catch (error) {
      if (errno(error) !== 'ENOENT') throw error
    }
  }
}
