import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import type { Effects } from '../../../../src/core/ports/effects.ts'
import { Handles } from '../../../../src/core/ports/handles.ts'
import { realClock } from '../../../../src/host/clock.ts'
import { realEffects } from '../../../../src/host/effects.ts'
import type { Daemon } from '../../../../src/placements/docker/daemon.ts'
import { dockerOver } from '../../../../src/placements/docker/docker.ts'
import { Followers } from '../../../../src/placements/docker/follower.ts'
import { containerLabel, type Docker, type DockerQueries, type InspectedContainer } from '../../../../src/placements/docker/ports.ts'
import { ContainerRunKind, type ContainerRunRef } from '../../../../src/placements/docker/run.ts'

/** A clock on which every deadline passes at the next turn of the event loop. An answer that exists by then is in time. */
const clock = { ...realClock, after: (_ms: number, _signal: AbortSignal, callback: () => void): void => void setImmediate(callback) }
const daemon = { identity: 'THIS', host: 'unix:///sock' }

/** Creates a client of a fake daemon that calls `attached` on an attach, and counts the starts of containers. */
function dockerThat(attached: () => void): { readonly docker: Docker; readonly starts: () => number } {
  let starts = 0
  const attach = async (): Promise<PassThrough> => {
    attached()
    return new PassThrough()
  }
  const start = async (): Promise<void> => void starts++
  const client = { getContainer: () => ({ attach, start }) }
  const fake = { call: async (_ms: number, _signal: unknown, work: (client: object) => Promise<unknown>) => await work(client) }
  return { docker: dockerOver(fake as unknown as Daemon), starts: () => starts }
}

describe('docker: starting a container while its scope closes (G13)', () => {
  it('does not start it when the scope was closing before the attach, or during it', async () => {
    const before = dockerThat(() => {})
    await expect(before.docker.start('id', '', AbortSignal.abort())).rejects.toThrow('its scope is closing')
    const closing = new AbortController()
    const between = dockerThat(() => closing.abort())
    await expect(between.docker.start('id', '', closing.signal)).rejects.toThrow('its scope is closing')
    expect([before.starts(), between.starts()]).toEqual([0, 0])
    const wanted = dockerThat(() => {})
    await (await wanted.docker.start('id', 'text', new AbortController().signal)).done
    expect(wanted.starts()).toBe(1)
  })
})

const spec = { installation: 'ours', program: 'sh' }

function kindWith(docker: Partial<Docker>, more: Partial<DockerQueries>, effects = realEffects, now = clock.now): ContainerRunKind {
  const usual = { isLocal: false, host: daemon.host, identity: async () => daemon.identity, list: async () => [] }
  const queries = { ...usual, ...more } as unknown as DockerQueries
  const followers = new Followers({ effects, queries, clock })
  return new ContainerRunKind({ docker: docker as Docker, effects, queries, clock: { ...clock, now }, followers, missedEnds: new Set() })
}

const refWith = (kind: ContainerRunKind, detail: object | undefined): ContainerRunRef =>
  kind.name({
    ...{ id: 'scope.4', scopeId: 'scope', incarnation: 'aaaaaaaaaaaa-1-2-3', kind: 'container-run', dependsOn: [], onLoss: 'end' },
    spec,
    ...(detail && { detail }),
  })

const signal = new AbortController().signal

describe('docker: a run for which the daemon does not confirm that it waits for the end', () => {
  it('is not started', async () => {
    let starts = 0
    const start = async (): Promise<never> => Promise.reject(new Error(`start ${++starts}`))
    const kind = kindWith({ start }, { nextExit: () => new Promise(() => {}) })
    const handles = new Handles()
    handles.add(containerLabel, { id: 'id', paths: undefined, mostBytes: 1, daemon })
    const ctx = { signal, clock, record: async () => {}, handles, live: { input: '' } }
    await expect(kind.create(refWith(kind, undefined), spec, ctx)).rejects.toThrow('did not answer within')
    expect(starts).toBe(0)
  })
})

describe('docker: a run at another daemon', () => {
  const other = { id: 'id', daemon: { identity: 'OTHER', host: 'unix:///other' } }

  it('is not reported as ended, and has no made-up exit (G4)', async () => {
    const kind = kindWith({}, {})
    await expect(kind.observe(refWith(kind, other), { signal, clock })).rejects.toThrow('OTHER at unix:///other')
    expect(await kind.ended(refWith(kind, other))).toBeUndefined()
    expect(await kind.ended(refWith(kind, { id: 'id', daemon }))).toEqual({ code: null, signal: null })
  })
})

describe('docker: the name of a run in reports', () => {
  it('is the same before and after the run exists', () => {
    const kind = kindWith({}, {})
    expect(kind.describe(refWith(kind, { id: 'f'.repeat(64) }))).toBe(kind.describe(refWith(kind, undefined)))
  })
})

describe('docker: killing the processes of a container', () => {
  /** A text that is in `/proc/PID/cgroup` of every process. As the id of the container, it makes this process seem to be inside. */
  const own = '0::/'
  const running: InspectedContainer = {
    ...{ id: own, name: 'ebb-scope.3', labels: {}, state: 'running', runtime: 'runc' },
    ...{ pid: process.pid, exitCode: undefined, restartPolicy: 'no' },
  }

  interface Scene {
    readonly seen?: Partial<InspectedContainer>
    readonly isLocal?: boolean
    readonly refusal?: string
  }

  /** Creates a scene that records which signals are sent, either directly (`here`) or through the daemon. */
  function killing({ seen = {}, isLocal = true, refusal }: Scene) {
    const sent: string[] = []
    let nowMs = 1_000
    let container = { ...running, ...seen }
    const effects = {
      signal: (pid: number, name: string) => {
        sent.push(`here ${pid === process.pid} ${name}`)
        if (refusal !== undefined) throw Object.assign(new Error(refusal), { code: refusal })
      },
    } as unknown as Effects
    const docker = {
      signal: async (_id: string, name: string) => void sent.push(`daemon ${name}`),
      unpause: async () => void sent.push('unpaused'),
    }
    const queries: Partial<DockerQueries> = { isLocal, list: async () => [container], inspect: async () => container }
    const kind = kindWith(docker as Partial<Docker>, queries, effects, () => nowMs)
    const ref = refWith(kind, { id: own, daemon })
    return {
      /** Returns the signals that are sent by a kill `ms` milliseconds after the previous one. */
      after: async (ms: number): Promise<readonly string[]> => {
        nowMs += ms
        await kind.release(ref, 'kill', { signal, clock })
        return sent.splice(0)
      },
      isSeen: async (state: string): Promise<void> => {
        container = { ...container, state }
        await kind.observe(ref, { signal, clock })
      },
    }
  }

  it.each(['runc', 'crun', 'io.containerd.runc.v2'])('is a direct signal when %s runs it on this host', async (runtime) => {
    expect(await killing({ seen: { runtime } }).after(0)).toEqual(['here true SIGKILL'])
  })

  it.each<[string, Scene]>([
    ['the daemon is on another host', { isLocal: false }],
    ['the pid does not belong to this container', { seen: { id: 'f'.repeat(64) } }],
    ['it has a kernel of its own', { seen: { runtime: 'kata' } }],
    ['the runtime is unknown', { seen: { runtime: '' } }],
    ['the pid is unknown', { seen: { pid: undefined } }],
  ])('goes through the daemon only when %s (G10)', async (_where, scene) => {
    expect(await killing(scene).after(0)).toEqual(['daemon SIGKILL'])
  })

  it('goes through the daemon for a paused container, which is unpaused afterwards', async () => {
    expect(await killing({ seen: { state: 'paused' } }).after(0)).toEqual(['daemon SIGKILL', 'unpaused'])
  })

  it('goes through the daemon when the direct signal is not permitted', async () => {
    expect(await killing({ refusal: 'EPERM' }).after(0)).toEqual(['here true SIGKILL', 'daemon SIGKILL'])
  })

  it('goes through the daemon when the direct signal had time and did not end it, until an end is observed', async () => {
    const kill = killing({})
    expect([await kill.after(0), await kill.after(500)]).toEqual([['here true SIGKILL'], ['here true SIGKILL']])
    expect([await kill.after(2_000), await kill.after(4_000)]).toEqual([['daemon SIGKILL'], ['daemon SIGKILL']])
    await kill.isSeen('running')
    expect(await kill.after(0)).toEqual(['daemon SIGKILL'])
    await kill.isSeen('exited')
    await kill.isSeen('running')
    expect(await kill.after(0)).toEqual(['here true SIGKILL'])
  })
})
