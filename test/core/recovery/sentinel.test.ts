import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Clock } from '../../../src/core/ports/clock.ts'
import type { Command, Effects } from '../../../src/core/ports/effects.ts'
import { realClock } from '../../../src/host/clock.ts'
import { realEffects } from '../../../src/host/effects.ts'
import { PipeSentinel } from '../../../src/host/sentinel.ts'
import { ebb, startEbb, temporaryHome } from '../../support/home.ts'
import { hooked, hookOn } from '../../support/hooked.ts'
import { installationOf, leftInHome, openBooks } from '../../support/ledger-file.ts'
import { startOther } from '../../support/other-supervisor.ts'
import { needs } from '../../support/real.ts'
import { openSupervisor } from '../../support/supervisor.ts'
import { cgroupsOf, processes, processesOfHome, type Seen, seen, waitUntil } from '../../support/world.ts'

/** The sentinel: the small process that notices the supervisor's death and starts the recovery. */

const sentinelsOf = (home: string): readonly Seen[] =>
  processesOfHome(home, undefined).filter(({ argv }) => argv.startsWith('ebb-sentinel\0'))

async function sentinelOf(home: string, but?: number): Promise<Seen> {
  const find = (): Seen | undefined => sentinelsOf(home).find(({ pid }) => pid !== but)
  await waitUntil(() => find() !== undefined, 30_000, 'a sentinel watches')
  return find() ?? expect.unreachable()
}

const statusOf = (pid: number, key: string): string =>
  new RegExp(`^${key}:\\s*(.*)$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? ''
const sessionOf = (pid: number): number => Number(readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)?.split(' ')[3])

describe('sentinel', () => {
  it('uses less than 3 MB, has a session of its own, and exposes no secrets of the user', async () => {
    await using supervisor = await openSupervisor()
    await supervisor.run(['/bin/sh', '-c', 'sleep 1000 # the-users-secret'], {
      env: { ...supervisor.config.environment, TOKEN: 'the-users-token' },
    })
    const { pid, argv, environ } = await sentinelOf(supervisor.home.directory)
    expect(Number.parseInt(statusOf(pid, 'VmRSS'), 10)).toBeLessThan(3 * 1_024)
    expect(sessionOf(pid)).toBe(pid)
    expect(argv).not.toMatch(/secret|token/)
    expect(argv).not.toContain(supervisor.home.directory)
    expect(environ).not.toMatch(/secret|token/)
  })

  it('watches before the first ledger write (G9)', async () => {
    const gate = Promise.withResolvers<void>()
    const calls: string[] = []
    await using supervisor = await openSupervisor({
      wrap: (name, port) =>
        name === 'ledger' ? hooked(port, (method) => calls.push(method)) : name === 'effects' ? gated(port, gate.promise) : port,
    })
    const launching = supervisor.run(['/bin/true'])
    for (let turn = 0; turn < 100; turn++) await new Promise((resolve) => setImmediate(resolve))
    expect(calls).toEqual([])
    gate.resolve()
    await launching
    expect(calls[0]).toBe('intend')
  })

  it('ignores SIGHUP, SIGINT, SIGQUIT and SIGTERM', async () => {
    await using supervisor = await openSupervisor()
    await supervisor.engine.begin()
    const { pid } = await sentinelOf(supervisor.home.directory)
    for (const signal of ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM'] as const) process.kill(pid, signal)
    await waitUntil(
      () => /^0+$/.test(statusOf(pid, 'SigPnd')) && /^0+$/.test(statusOf(pid, 'ShdPnd')),
      30_000,
      'the signals were delivered',
    )
    expect(seen(pid)?.pid).toBe(pid)
  })

  it('is started again when it is killed, and exits when it is dismissed', async () => {
    const home = temporaryHome()
    const supervisor = await openSupervisor({ home })
    await supervisor.engine.begin()
    const first = await sentinelOf(home)
    process.kill(first.pid, 'SIGKILL')
    const second = await sentinelOf(home, first.pid)
    await supervisor[Symbol.asyncDispose]()
    await waitUntil(() => processesOfHome(home, undefined), 30_000, 'the sentinel exits')
    expect(seen(second.pid)).toBeUndefined()
    // A sentinel that mistakes the shutdown of its supervisor for a death creates its log file.
    expect(existsSync(supervisor.home.sentinelLog)).toBe(false)
  })

  it('a missing sentinel is a health problem until a new one is started', async () => {
    let isBroken = false
    const wrap = hookOn('effects', (method) => {
      if (method === 'spawn' && isBroken) throw new Error('spawn EAGAIN')
    })
    await using supervisor = await openSupervisor({ wrap })
    await supervisor.engine.begin()
    const { pid } = await sentinelOf(supervisor.home.directory)
    expect(supervisor.problems()).toEqual([])
    isBroken = true
    process.kill(pid, 'SIGKILL')
    await waitUntil(() => supervisor.problems().length > 0, 30_000, 'the missing sentinel is reported')
    expect(supervisor.problems()).toEqual([expect.stringContaining('No sentinel is running')])
    isBroken = false
    await sentinelOf(supervisor.home.directory, pid)
    await waitUntil(() => supervisor.problems(), 30_000, 'no problem is reported')
  })

  it('is restarted with growing pauses, up to 10 s, until one has lived for a minute', async () => {
    const pauses: number[] = []
    const lost: string[] = []
    let nowMs = 0
    let restart = (): void => {}
    const every: Clock['every'] = (ms, _signal, callback) => {
      pauses.push(ms)
      restart = callback
    }
    const home = temporaryHome()
    const settings = {
      home,
      incarnation: 'none',
      killSwitch: '',
      start: '',
      which: '',
      node: '/bin/true',
      log: join(home, 'log'),
      environment: {},
    }
    const clock = { ...realClock, now: () => nowMs, every }
    const sentinel = new PipeSentinel({ effects: realEffects, clock, onLost: (reason) => lost.push(reason), ...settings })
    await sentinel.ready()
    for (let death = 0; death < 10; death++) {
      const dead = endOne(sentinel)
      if (death > 0) {
        await waitUntil(() => pauses.length === death, 30_000, 'the restart is delayed')
        expect(sentinel.isLost).toBe(true)
        restart()
      }
      await nextOne(sentinel, dead)
    }
    expect(pauses).toEqual([100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000])
    expect(lost).toEqual(['it was ended'])
    nowMs += 60_000
    await nextOne(sentinel, endOne(sentinel))
    expect(pauses).toHaveLength(9)
    sentinel.dismiss()
  })

  it('exits when the start of the supervisor fails', async () => {
    const home = temporaryHome()
    writeFileSync(join(home, 'ebb.db'), 'this is no database')
    await expect(openSupervisor({ home })).rejects.toMatchObject({ code: 'ledger_corrupt' })
    await waitUntil(() => processesOfHome(home, undefined), 30_000, 'the sentinel exits')
    expect(existsSync(join(home, 'sentinel.log'))).toBe(false)
  })
})

function endOne({ pid = 0 }: PipeSentinel): number {
  process.kill(pid, 'SIGKILL')
  return pid
}

async function nextOne(sentinel: PipeSentinel, dead: number): Promise<void> {
  await waitUntil(() => sentinel.pid !== dead && !sentinel.isLost, 30_000, 'the next sentinel watches')
}

/** Wraps the effects of a supervisor, so that `spawn` waits until the promise `gate` resolves. */
function gated<T extends object>(port: T, gate: Promise<void>): T {
  const { spawn } = port as unknown as Effects
  return Object.assign(Object.create(port) as T, { spawn: async (command: Command) => await gate.then(() => spawn(command)) })
}

describe.each(['cgroup', 'scan'] as const)('after SIGKILL of the supervisor (%s)', (containment) => {
  needs(containment)

  const fifty = ['/bin/sh', '-c', 'for i in $(seq 49); do sleep 1000 & done; wait']

  /** Lists everything that a dead supervisor could leave on the system: processes, cgroups, ledger entries and files of the home. */
  function left(home: string): readonly unknown[] {
    const installation = installationOf(home)
    return [...processesOfHome(home, installation), ...cgroupsOf(installation ?? ''), ...openBooks(home), ...leftInHome(home)]
  }

  const sleepers = (home: string): number => processesOfHome(home, installationOf(home)).filter(({ command }) => command === 'sleep').length

  it('50 processes are killed, and the system is clean', async ({ annotate }) => {
    const home = temporaryHome()
    await using other = await startOther({ home, containment, argv: fifty })
    await waitUntil(() => sleepers(home) === 49, 30_000, 'all processes run')
    const since = performance.now()
    await other.kill()
    await waitUntil(() => sleepers(home) === 0, 30_000, 'the processes are gone')
    const goneMs = performance.now() - since
    await waitUntil(() => left(home), 30_000, 'the system is clean')
    await annotate(`processes gone after ${Math.round(goneMs)} ms, ledger finished after ${Math.round(performance.now() - since)} ms`)
    expect(processes().some(({ pid }) => pid === other.tree)).toBe(false)
    expect((statSync(join(home, 'sentinel.log')).mode & 0o777).toString(8)).toBe('600')
  })

  it('the system is clean when the first sentinel was killed before', async () => {
    const home = temporaryHome()
    await using other = await startOther({ home, containment, argv: ['/bin/sleep', '1000'] })
    const first = await sentinelOf(home)
    process.kill(first.pid, 'SIGKILL')
    // The second sentinel need not be ready: from its start on, it must notice the supervisor's death.
    await sentinelOf(home, first.pid)
    await other.kill()
    await waitUntil(() => left(home), 30_000, 'the system is clean')
  })
})

it('recovery by a sentinel: waits for a supervisor that is still dying', async () => {
  const home = temporaryHome()
  await using other = await startOther({ home, containment: 'scan', argv: ['/bin/sleep', '1000'] })
  const sentinel = await sentinelOf(home)
  process.kill(sentinel.pid, 'SIGSTOP')
  const recovery = startEbb(['recover'], { home, env: { SENTINEL_OF: other.incarnation }, input: '' })
  const incarnations = (): number => openBooks(home).filter((line) => line.startsWith('incarnation')).length
  await waitUntil(() => incarnations() === 2, 30_000, 'the recovery has begun')
  await other.kill()
  const { code, stdout } = await recovery.ended
  process.kill(sentinel.pid, 'SIGKILL')
  expect({ code, text: stdout.toString() }).toMatchObject({
    code: 0,
    text: expect.stringContaining('Recovered 1 scope of dead supervisors: '),
  })
})

it.each([
  ['a sentinel', { SENTINEL_OF: 'unknown' }],
  ['a person', {}],
])('recovery by %s: does not create a removed home again', async (_caller, env) => {
  const home = join(temporaryHome(), 'removed')
  expect(await ebb(['recover'], { home, env })).toMatchObject({ code: 0, stdout: Buffer.from('Nothing to recover.\n') })
  expect(existsSync(home)).toBe(false)
})
