import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { LogHandle, LogSpec, logKind } from '../../src/core/ports/agent-log.ts'
import type { CreateCtx, IntentOf } from '../../src/core/ports/kind.ts'
import { realClock } from '../../src/host/clock.ts'
import { ScanContainment } from '../../src/host/containment/scan.ts'
import { realEffects } from '../../src/host/effects.ts'
import { openHost } from '../../src/host/host.ts'
import { procTable } from '../../src/host/processes/proc.ts'
import type { Holders } from '../../src/kinds/log/holders.ts'
import type { LogRef } from '../../src/kinds/log/kind.ts'
import { LogKind } from '../../src/kinds/log/kind.ts'
import { temporaryHome } from './home.ts'
import { type Hook, hooked } from './hooked.ts'

/** The log kind without an engine, with a home and a workspace. */
export interface LogScene {
  readonly kind: LogKind
  readonly ctx: CreateCtx
  readonly home: string
  readonly workspace: string
  /** Notes of the kind for the report. */
  readonly notes: readonly string[]
  readonly counted: readonly string[]
  /** A reference to a log in the workspace, as agents of a task have it. */
  inside(name: string, more?: Partial<LogSpec>): LogRef
  make(ref: LogRef): Promise<LogHandle>
}

export interface LogSceneOptions {
  readonly before?: Hook
  readonly holders?: Pick<Holders, 'find'>
  readonly readToEnd?: (stream: string) => void
}

export async function inLogScene(test: (scene: LogScene) => Promise<void>, options: LogSceneOptions = {}): Promise<void> {
  const home = temporaryHome()
  const [directory, workspace] = [join(home, 'logs'), join(home, 'workspace')]
  for (const folder of [directory, workspace, join(home, 'archive')]) mkdirSync(folder)
  const effects = options.before ? hooked(realEffects, options.before) : realEffects
  const installation = `scene${process.pid}`
  const host = openHost(installation, procTable)
  const net = new ScanContainment({ effects, host, processes: procTable, inheritedTag: undefined, directory: join(home, 'doors') })
  const counted: string[] = []
  const kind = new LogKind({
    effects,
    directory,
    inheritedTag: undefined,
    installation,
    fallbackScan: net,
    processes: procTable,
    onBytes: (what, bytes) => counted.push(`${what} ${bytes}`),
    readToEnd: async ({ stream }) => options.readToEnd?.(stream),
    ...(options.holders && { holders: options.holders }),
  })
  const lifetime = new AbortController()
  const notes: string[] = []
  const ctx = { clock: realClock, signal: lifetime.signal, note: (text: string) => notes.push(text) } as unknown as CreateCtx
  let ordinal = 0
  const made = new Map<string, LogRef>()
  const inside: LogScene['inside'] = (name, more = {}) => {
    const place = { workspace, path: `logs/${name}.jsonl`, archive: `archive/${name}.jsonl` }
    const spec: LogSpec = {
      installation,
      directory: join(workspace, 'logs'),
      archive: join(workspace, place.archive),
      stream: 'stdout',
      inside: place,
      ...more,
    }
    ordinal += 1
    return kind.name({ id: `scene.${ordinal}`, incarnation: host.incarnationId, spec } as IntentOf<typeof logKind>)
  }
  const make: LogScene['make'] = async (ref) => {
    made.set(ref.mark.resourceId, ref)
    return (await kind.create(ref, ref, ctx)).handle
  }
  try {
    await test({ kind, ctx, home, workspace, notes, counted, inside, make })
  } finally {
    for (const ref of made.values()) {
      // A release that a test has blocked may fail. The rest is removed with the folder.
      await kind.release(ref, 'kill', ctx).catch(() => {})
      await kind.gone(ref, ctx)
    }
    lifetime.abort()
  }
}
