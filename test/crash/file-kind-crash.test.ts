import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Effects } from '../../src/core/ports/effects.ts'
import { Handles } from '../../src/core/ports/handles.ts'
import type { CreateCtx, DetailOf, IntentOf } from '../../src/core/ports/kind.ts'
import { realClock } from '../../src/host/clock.ts'
import { realEffects } from '../../src/host/effects.ts'
import { DirectoryKind, FileKind, type fileKind } from '../../src/kinds/file/kind.ts'
import { Crash, Fuse, fused } from '../support/fuse.ts'
import { temporaryHome } from '../support/home.ts'

/** G1, G9: a creation that dies between any two of its effects leaves only what the next observation finds as Ebb's. */

describe.each([
  ['file', (effects: Effects) => new FileKind(effects)],
  ['directory', (effects: Effects) => new DirectoryKind(effects)],
] as const)('creation of a %s', (_name, kindOf) => {
  it.each(['before', 'after'] as const)('a crash %s any effect leaves only what the recovery finds and removes', async (when) => {
    const points = await crashAtEveryPoint(when)
    expect(points).toBeGreaterThan(2)
  })

  async function crashAtEveryPoint(when: 'before' | 'after'): Promise<number> {
    for (let point = 1; ; point++) {
      const workspace = temporaryHome()
      const fuse = new Fuse(point, when)
      const intent: IntentOf<typeof fileKind> = {
        id: 'agent.1',
        scopeId: 'agent',
        incarnation: 'i1',
        kind: 'file',
        spec: { workspace, path: 'ours' },
        dependsOn: [],
        onLoss: 'end',
      }
      let recorded: DetailOf<typeof fileKind> | undefined
      await create(kindOf(fused(fuse)), intent, fuse, (detail) => {
        recorded = detail
      })
      await requireFound(workspace, { ...intent, ...(recorded && { detail: recorded }) })
      if (!fuse.hasBlown) return point - 1
    }
  }

  async function create(
    kind: FileKind | DirectoryKind,
    intent: IntentOf<typeof fileKind>,
    fuse: Fuse,
    write: (detail: DetailOf<typeof fileKind>) => void,
  ): Promise<void> {
    const ctx: CreateCtx<typeof fileKind> = {
      signal: new AbortController().signal,
      clock: realClock,
      live: 'content',
      handles: new Handles(),
      record: async (detail) => fuse.burn(() => write(detail)),
    }
    await kind.create(kind.name(intent), intent.spec, ctx).catch((error: unknown) => {
      if (!(error instanceof Crash)) throw error
    })
  }

  /** Observes and releases the resource as the next supervisor does: only from the intent and its recorded detail. */
  async function requireFound(workspace: string, intent: IntentOf<typeof fileKind>): Promise<void> {
    const kind = kindOf(realEffects)
    const ref = kind.name(intent)
    const ctx = { signal: new AbortController().signal, clock: realClock }
    expect((await kind.observe(ref, ctx)).is).toBe(readdirSync(workspace).length > 0 ? 'present' : 'absent')
    await kind.release(ref)
    expect(readdirSync(workspace)).toEqual([])
    expect((await kind.observe(ref, ctx)).is).toBe('absent')
    expect(existsSync(join(workspace, 'ours'))).toBe(false)
  }
})
