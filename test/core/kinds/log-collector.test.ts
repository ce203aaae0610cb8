import { closeSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { LogHandle, LogSpec, logKind } from '../../../src/core/ports/agent-log.ts'
import type { Effects } from '../../../src/core/ports/effects.ts'
import type { CreateCtx, IntentOf } from '../../../src/core/ports/kind.ts'
import { realClock } from '../../../src/host/clock.ts'
import { ScanContainment } from '../../../src/host/containment/scan.ts'
import { realEffects } from '../../../src/host/effects.ts'
import { openHost } from '../../../src/host/host.ts'
import { procTable } from '../../../src/host/processes/proc.ts'
import type { ProcessEntry } from '../../../src/host/processes/process-table.ts'
import { LogKind, type LogRef } from '../../../src/kinds/log/kind.ts'
import { temporaryHome } from '../../support/home.ts'
import { hooked } from '../../support/hooked.ts'
import { processes, seen, waitUntil } from '../../support/world.ts'

/** The kind `log` without an engine. The test decides when a wait for a collector is over. */

interface Scene {
  readonly kind: LogKind
  readonly ctx: CreateCtx
  readonly counted: readonly string[]
  make(name: string): Promise<{ readonly ref: LogRef; readonly handle: LogHandle; readonly collector: number }>
  /** The process state that scans report for all processes, instead of the real one. */
  readonly faked: { state?: string }
  /** Waits until the drain of the log waits for the next quiet period, and ends that period. */
  endQuietPeriod(): Promise<void>
  /** Waits until the drain of the log waits for the collector process. */
  untilWaiting(): Promise<void>
}

async function inScene(test: (scene: Scene) => Promise<void>, onEffect: (method: string) => void = () => {}): Promise<void> {
  const home = temporaryHome()
  const [directory, archive] = [join(home, 'logs'), join(home, 'archive')]
  for (const folder of [directory, archive]) mkdirSync(folder)
  const effects: Effects = hooked(realEffects, onEffect)
  const installation = `collector${process.pid}`
  const host = openHost(installation, procTable)
  const faked: Scene['faked'] = {}
  const snapshot = async (): Promise<readonly ProcessEntry[]> =>
    (await procTable.snapshot()).map((entry) =>
      faked.state === undefined ? entry : { ...entry, environmentTags: entry.environmentTags, state: faked.state },
    )
  const fallbackScan = new ScanContainment({
    effects,
    host,
    processes: { ...procTable, snapshot },
    inheritedTag: undefined,
    directory: join(home, 'gates'),
  })
  const counted: string[] = []
  const onBytes = (what: string, bytes: number): void => void counted.push(`${what} ${bytes}`)
  const kind = new LogKind({ effects, directory, inheritedTag: undefined, installation, fallbackScan, processes: procTable, onBytes })
  const budgets: (() => void)[] = []
  const after: typeof realClock.after = (ms, signal, callback) =>
    ms >= 1_000 ? void budgets.push(callback) : realClock.after(ms, signal, callback)
  const lifetime = new AbortController()
  const ctx = { clock: { ...realClock, after }, signal: lifetime.signal } as unknown as CreateCtx
  const made: LogRef[] = []
  const make: Scene['make'] = async (name) => {
    const spec: LogSpec = { installation, directory, archive: join(archive, `${name}.log`) }
    const ref = kind.name({ id: `${name}.1`, incarnation: host.incarnationId, spec } as IntentOf<typeof logKind>)
    made.push(ref)
    const { handle } = await kind.create(ref, spec, ctx)
    const collector = processes().find(({ environ }) => environ.includes(`${installation}/${host.incarnationId}/${name}.1\0`))?.pid
    return { ref, handle, collector: collector ?? expect.unreachable() }
  }
  const untilWaiting = (): Promise<void> => waitUntil(() => budgets.length > 0, 30_000, 'the drain waits for the collector')
  const endQuietPeriod = async (): Promise<void> => {
    await untilWaiting()
    budgets.shift()?.()
  }
  try {
    await test({ kind, ctx, counted, faked, make, endQuietPeriod, untilWaiting })
  } finally {
    for (const ref of made) {
      await kind.release(ref, 'kill', ctx)
      await kind.gone(ref, ctx)
    }
    lifetime.abort()
  }
}

const text = (path: string): string => readFileSync(path, 'utf8')

describe('a collector that has not read the end of the stream', () => {
  it('is not killed while lines still arrive', async () => {
    await inScene(async ({ kind, ctx, make, endQuietPeriod }) => {
      const { ref, collector } = await make('flows')
      const writer = openSync(`/proc/${collector}/fd/0`, 'w')
      const met = kind.meet('archive', ref, ctx)
      for (const [line, all] of [
        ['one\n', 'one\n'],
        ['two\n', 'one\ntwo\n'],
      ] as const) {
        writeSync(writer, line)
        await waitUntil(() => text(ref.path) === all, 30_000, 'the line is in the log')
        await endQuietPeriod()
      }
      writeSync(writer, 'three\n')
      closeSync(writer)
      await met
      expect(text(ref.archive)).toBe('one\ntwo\nthree\n')
    })
  })

  it('is not killed while it waits for the disk', async () => {
    await inScene(async ({ kind, ctx, faked, make, endQuietPeriod, untilWaiting }) => {
      const { ref, collector } = await make('busy')
      const stranger = openSync(`/proc/${collector}/fd/0`, 'w')
      faked.state = 'D'
      const met = kind.meet('archive', ref, ctx)
      await endQuietPeriod()
      await untilWaiting()
      delete faked.state
      await endQuietPeriod()
      await met
      closeSync(stranger)
      await waitUntil(() => seen(collector) === undefined, 30_000, 'the collector has ended')
    })
  })

  it('is continued when an agent has stopped it', async () => {
    await inScene(async ({ kind, ctx, make, endQuietPeriod }) => {
      const { ref, handle, collector } = await make('stopped')
      process.kill(collector, 'SIGSTOP')
      await waitUntil(() => seen(collector)?.state === 'T', 30_000, 'the collector is stopped')
      writeSync(handle.fd ?? -1, 'the tail\n')
      const met = kind.meet('archive', ref, ctx)
      await endQuietPeriod()
      await met
      expect(text(ref.archive)).toBe('the tail\n')
    })
  })

  it('is killed when a foreign process holds the pipe open and writes nothing', async () => {
    await inScene(async ({ kind, ctx, make, endQuietPeriod }) => {
      const { ref, handle, collector } = await make('quiet')
      const stranger = openSync(`/proc/${collector}/fd/0`, 'w')
      writeSync(handle.fd ?? -1, 'all there is\n')
      await waitUntil(() => text(ref.path) !== '' && seen(collector)?.state === 'S', 30_000, 'the line is in the log')
      const met = kind.meet('archive', ref, ctx)
      await endQuietPeriod()
      await met
      closeSync(stranger)
      expect(text(ref.archive)).toBe('all there is\n')
    })
  })
})

it('log: the kernel proof is kept until the next log is made; later observations have strength scan', async () => {
  await inScene(async ({ kind, ctx, make }) => {
    const { ref } = await make('first')
    await kind.release(ref, 'kill', ctx)
    await kind.gone(ref, ctx)
    const strength = async (): Promise<unknown> => await kind.observe(ref, ctx)
    for (let time = 1; time <= 2; time++) expect(await strength()).toMatchObject({ is: 'absent', proof: { strength: 'kernel' } })
    await make('second')
    expect(await strength()).toMatchObject({ is: 'absent', proof: { strength: 'scan' } })
  })
})

it('log: bytes are counted when they were archived or freed, not when that failed', async () => {
  const broken = new Set<string>()
  const onEffect = (method: string): void => {
    if (broken.delete(method)) throw new Error(`${method} is broken`)
  }
  await inScene(async ({ kind, ctx, counted, make }) => {
    const kept = await make('kept')
    writeSync(kept.handle.fd ?? -1, 'kept\n')
    broken.add('link')
    await expect(kind.meet('archive', kept.ref, ctx)).rejects.toThrow('link is broken')
    expect(counted).toEqual([])
    await kind.meet('archive', kept.ref, ctx)
    await kind.release(kept.ref, 'kill', ctx)
    expect(counted).toEqual(['archived 5'])

    const freed = await make('freed')
    writeSync(freed.handle.fd ?? -1, 'not kept\n')
    await waitUntil(() => text(freed.ref.path) !== '', 30_000, 'the line is in the log')
    broken.add('unlink')
    await expect(kind.release(freed.ref, 'kill', ctx)).rejects.toThrow('unlink is broken')
    for (let time = 1; time <= 2; time++) await kind.release(freed.ref, 'kill', ctx)
    expect(counted).toEqual(['archived 5', 'freed 9'])
  }, onEffect)
})
