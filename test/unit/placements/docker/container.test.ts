import { describe, expect, it } from 'vitest'
import { Handles } from '../../../../src/core/ports/handles.ts'
import { realClock } from '../../../../src/host/clock.ts'
import { realEffects } from '../../../../src/host/effects.ts'
import { DockerError } from '../../../../src/placements/docker/daemon.ts'
import { Followers } from '../../../../src/placements/docker/follower.ts'
import { splitFrames } from '../../../../src/placements/docker/frames.ts'
import { ContainerKind, type ContainerRef } from '../../../../src/placements/docker/kind.ts'
import type { Docker, DockerQueries, OutputPiece, SeenContainer } from '../../../../src/placements/docker/ports.ts'

const late: SeenContainer = { id: 'f'.repeat(64), name: 'ebb-scope.3', labels: {}, state: 'created' }

/** A kind with a fake daemon that returns the given listings in order, and then repeats the last one. No time passes. */
interface Seeing {
  readonly kind: ContainerKind
  readonly listings: () => number
}

function kindSeeing(...answers: readonly (readonly SeenContainer[])[]): Seeing {
  return kindAt({}, ...answers)
}

function kindAt(more: Partial<DockerQueries>, ...answers: readonly (readonly SeenContainer[])[]): Seeing {
  let count = 0
  const list = async (): Promise<readonly SeenContainer[]> => answers[Math.min(count++, answers.length - 1)] ?? []
  const refuse = async (): Promise<never> => Promise.reject(new DockerError('the Docker daemon answered: conflict', 409, undefined))
  const usual = { isLocal: true, host: 'unix:///sock', identity: async () => 'THIS', isNameFree: async () => true }
  const queries = { ...usual, list, ...more } as unknown as DockerQueries
  const clock = { ...realClock, after: (_ms: number, _signal: AbortSignal, callback: () => void): void => callback() }
  const followers = new Followers({ effects: realEffects, queries, clock })
  const docker = { create: refuse } as unknown as Docker
  const shared = { docker, queries, clock, followers, missedEnds: new Set<string>() }
  const kind = new ContainerKind({ ...shared, effects: realEffects, inheritedTag: undefined, mostBytes: 1_000 })
  return { kind, listings: () => count }
}

const refWith = (kind: ContainerKind, detail: object | undefined): ContainerRef =>
  kind.name({
    ...{ id: 'scope.3', scopeId: 'scope', incarnation: 'aaaaaaaaaaaa-1-2-3', kind: 'container', dependsOn: [], onLoss: 'end' },
    spec: { installation: 'ours', image: 'bb:1' },
    ...(detail && { detail }),
  })

const ctx = {
  signal: new AbortController().signal,
  clock: { ...realClock, after: (_ms: number, _s: AbortSignal, call: () => void) => call() },
}

describe('docker: a container whose creation was not confirmed', () => {
  it('is looked for a second time before it counts as absent, because the daemon may be creating it', async () => {
    const { kind } = kindSeeing([], [late])
    expect(await kind.observe(refWith(kind, {}), ctx)).toMatchObject({ is: 'present' })
  })

  it('is absent when it does not appear, and is not waited for again', async () => {
    const { kind, listings } = kindSeeing([])
    const ref = refWith(kind, {})
    expect(await kind.observe(ref, ctx)).toMatchObject({ is: 'absent', proof: { method: 'no such container', strength: 'api' } })
    expect(await kind.observe(ref, ctx)).toMatchObject({ is: 'absent' })
    expect(listings()).toBe(3)
  })

  it('needs no second listing when it was never requested, or was created and is gone', async () => {
    for (const detail of [undefined, { id: late.id }]) {
      const { kind, listings } = kindSeeing([], [late])
      expect(await kind.observe(refWith(kind, detail), ctx)).toMatchObject({ is: 'absent' })
      expect(listings()).toBe(1)
    }
  })

  it('needs no second listing when the daemon refused to create it', async () => {
    const { kind, listings } = kindSeeing([], [late])
    const create = { ...ctx, record: async () => {}, handles: new Handles(), live: { argv: [], env: {}, mounts: [] } }
    await expect(kind.create(refWith(kind, undefined), { installation: 'ours', image: 'bb:1' }, create)).rejects.toThrow('left alone')
    expect(await kind.observe(refWith(kind, {}), ctx)).toMatchObject({ is: 'absent' })
    expect(listings()).toBe(1)
  })
})

describe('docker: a container that the daemon is still creating for a dead supervisor', () => {
  const isNameFree = async (): Promise<boolean> => false

  it('is unknown while its name is taken and no container has it', async () => {
    const { kind } = kindAt({ isNameFree, inspect: async () => undefined }, [])
    expect(await kind.observe(refWith(kind, {}), ctx)).toMatchObject({
      is: 'unknown',
      reason: expect.stringContaining('is still creating'),
    })
    expect(await kind.observe(refWith(kind, {}), ctx)).toMatchObject({ is: 'unknown' })
  })

  it('is present once it is listed, and absent when a foreign container has the name', async () => {
    const shown = kindAt({ isNameFree, inspect: async () => undefined }, [], [late])
    expect(await shown.kind.observe(refWith(shown.kind, {}), ctx)).toMatchObject({ is: 'present' })
    const foreign = { ...late, pid: undefined, exitCode: undefined, restartPolicy: 'no', runtime: 'runc' }
    const taken = kindAt({ isNameFree, inspect: async () => foreign }, [])
    expect(await taken.kind.observe(refWith(taken.kind, {}), ctx)).toMatchObject({ is: 'absent' })
  })
})

describe('docker: a container that another daemon created', () => {
  it('is not reported as gone, and the error names both daemons (G4)', async () => {
    const { kind } = kindSeeing([])
    const made = { id: late.id, daemon: { identity: 'OTHER', host: 'unix:///other' } }
    await expect(kind.observe(refWith(kind, made), ctx)).rejects.toThrow(/OTHER at unix:\/\/\/other.*unix:\/\/\/sock is THIS/)
    const same = { id: late.id, daemon: { identity: 'THIS', host: 'unix:///other' } }
    expect(await kind.observe(refWith(kind, same), ctx)).toMatchObject({ is: 'absent' })
  })
})

describe('docker: the frames of an output stream', () => {
  const frame = (stream: number, text: string): Buffer => {
    const header = Buffer.alloc(8)
    header.writeUInt8(stream, 0)
    header.writeUInt32BE(Buffer.byteLength(text), 4)
    return Buffer.concat([header, Buffer.from(text)])
  }
  const all = Buffer.concat([frame(1, 'one ä\n'), frame(2, 'error\n'), frame(1, ''), frame(1, 'two')])

  async function* inPieces(size: number): AsyncIterable<Uint8Array> {
    for (let at = 0; at < all.length; at += size) yield all.subarray(at, at + size)
  }

  it.each([1, 2, 3, 7, 8, 9, 100])('are complete when they arrive in pieces of %i bytes', async (size) => {
    const output: Record<string, Buffer> = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) }
    const pieces: OutputPiece[] = await Array.fromAsync(splitFrames(inPieces(size)))
    for (const { stream, bytes } of pieces) output[stream] = Buffer.concat([output[stream] ?? Buffer.alloc(0), bytes])
    expect([output.stdout?.toString(), output.stderr?.toString()]).toEqual(['one ä\ntwo', 'error\n'])
  })

  it('the frames of one chunk arrive together, one piece per stream', async () => {
    const pieces: OutputPiece[] = await Array.fromAsync(splitFrames(inPieces(all.length)))
    expect(pieces.map(({ stream, bytes }) => [stream, Buffer.from(bytes).toString()])).toEqual([
      ['stdout', 'one ä\ntwo'],
      ['stderr', 'error\n'],
    ])
  })

  it('with an error of the daemon fail with its text, after all earlier output', async () => {
    const output: string[] = []
    const broken = async (): Promise<void> => {
      async function* chunks(): AsyncIterable<Uint8Array> {
        yield Buffer.concat([frame(1, 'one\n'), frame(3, 'error from daemon: ').subarray(0, 12)])
        yield frame(3, 'error from daemon: ').subarray(12)
      }
      for await (const { bytes } of splitFrames(chunks())) output.push(Buffer.from(bytes).toString())
    }
    await expect(broken()).rejects.toThrow('could not read the output: error from daemon:')
    expect(output).toEqual(['one\n'])
  })

  it('frames of an unknown stream are refused', async () => {
    async function* strange(): AsyncIterable<Uint8Array> {
      yield frame(7, 'x')
    }
    await expect(Array.fromAsync(splitFrames(strange()))).rejects.toThrow('stream 7')
  })
})
