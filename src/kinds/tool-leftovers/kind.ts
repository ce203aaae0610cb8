import { lstatSync } from 'node:fs'
import { errno } from '../../core/model/errors.ts'
import type { LadderStep } from '../../core/model/ladder.ts'
import { absent, type Intent, type Presence, type Proof, present } from '../../core/model/resource.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { Created, Ctx, Found, ResourceKind, StepEffect } from '../../core/ports/kind.ts'
import type { ToolLeftoversSpec } from '../../core/ports/temp.ts'
import { type Sighted, type Trace, versionOf } from './sighted.ts'

/**
 * What a program writes in folders of its user's, takes away itself when it ends well, and leaves when it is killed. We make
 * nothing; the program does, and only what holds a mark of its agent is ours (G10). Conversations are its user's and no traces.
 */
export class ToolLeftoversKind implements ResourceKind<ToolLeftoversSpec, ToolLeftoversSpec> {
  readonly kind = 'traces'
  readonly outlivesPower = true
  readonly #effects: Effects

  constructor(effects: Effects) {
    this.#effects = effects
  }

  name({ spec }: Pick<Intent<ToolLeftoversSpec>, 'spec'>): ToolLeftoversSpec {
    return spec
  }

  describe({ places }: ToolLeftoversSpec): string {
    return places.map(({ folder }) => folder).join(', ')
  }

  steps(): readonly LadderStep[] {
    return ['kill']
  }

  async create(): Promise<Created> {
    return {}
  }

  async observe(spec: ToolLeftoversSpec, ctx: Ctx): Promise<Presence> {
    const [first] = await this.#find(spec, ctx)
    if (first) return present(first.path)
    return absent({ method: 'no file there holds its mark', strength: 'scan', at: ctx.clock.wall() })
  }

  async release(spec: ToolLeftoversSpec, _step: LadderStep, ctx: Ctx): Promise<StepEffect> {
    for (const { kin, ...own } of await this.#find(spec, ctx)) for (const one of [...kin, own]) this.#unlink(one)
    return {}
  }

  async gone(spec: ToolLeftoversSpec, ctx: Ctx): Promise<Proof> {
    const seen = await this.observe(spec, ctx)
    if (seen.is !== 'absent') throw new Error('Traces of it are still there')
    return seen.proof
  }

  /** Folders of a person's are not ours to search for what we do not know of: traces are found through the ledger. */
  async *list(): AsyncIterable<Found> {}

  /** Loaded by who needs it: a run of somebody else's command has no time for it. */
  async #find(spec: ToolLeftoversSpec, { signal }: Ctx): Promise<readonly Trace[]> {
    return await (await import('./search.ts')).findToolLeftovers(spec, signal)
  }

  /** Some are named after a pid: another program may have put its own there since it was read (G10). */
  #unlink({ path, version }: Sighted): void {
    try {
      if (versionOf(lstatSync(path)) === version) this.#effects.unlink(path)
    } catch (error) {
      if (errno(error) !== 'ENOENT') throw error
    }
  }
}
