import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Effects } from '../../../src/core/ports/effects.ts'
import type { Host } from '../../../src/core/ports/host.ts'
import { realClock } from '../../../src/host/clock.ts'
import { CgroupContainment } from '../../../src/host/containment/cgroup.ts'
import type { Tree } from '../../../src/host/containment/containment.ts'
import { procTable } from '../../../src/host/processes/proc.ts'
import { needs } from '../../support/real.ts'
import { hierarchies, ownCgroup2, seen, waitUntil } from '../../support/world.ts'

/**
 * A close during a launch may find the main process before it has moved itself into its cgroup, or in the middle of a fork. A process that
 * gets no signal then runs until the grace period is over and it is killed.
 */
describe('signals to a cgroup during a launch', () => {
  needs('cgroup')

  const patienceMs = 5_000

  async function inCgroup(script: string, test: (scene: Scene) => Promise<void>): Promise<void> {
    const installation = `gate${process.pid}`
    const own = ownCgroup2() ?? ''
    const place = join(own, `ebb-${installation}`)
    mkdirSync(place)
    const child = spawn('/bin/sh', ['-c', script, join(place, 'cgroup.procs')])
    const exit = once(child, 'exit')
    const sent: number[] = []
    const hooks = { beforeSignal: () => {} }
    const effects = {
      signal: (pid: number, signal: NodeJS.Signals) => {
        if (signal === 'SIGTERM') {
          hooks.beforeSignal()
          sent.push(pid)
        }
        process.kill(pid, signal)
      },
      removeDirectory: rmdirSync,
    } as unknown as Effects
    const mountPoint = hierarchies().find(({ version }) => version === 2)?.mountPoint ?? ''
    const host = { installation, incarnationId: 'none' } as unknown as Host
    const containment = new CgroupContainment({ mountPoint, own }, { effects, host, processes: procTable, inheritedTag: undefined })
    const inside = (): readonly number[] => readFileSync(join(place, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean).map(Number)
    try {
      if (script.includes('echo inside')) await once(child.stdout, 'data')
      const main = { pid: child.pid ?? 0, startTime: seen(child.pid ?? 0)?.startTime ?? '' }
      const tree = { main, mark: { incarnation: 'none' }, place, limitPlaces: [] } as unknown as Tree
      await test({ containment, tree, child, pid: main.pid, exit, sent, inside, hooks })
    } finally {
      child.kill('SIGKILL')
      await exit
      await remove(place, inside)
    }
  }

  it.each([
    ['before it has entered', 'read -r go'],
    ['after it has entered', 'echo $$ >"$0"; echo inside; read -r go'],
  ])('reach the main process %s', async (_when, wait) => {
    await inCgroup(`${wait}; echo $$ >"$0"; exec sleep 1000`, async ({ containment, tree, exit, sent, pid }) => {
      await containment.signal(tree, ['SIGTERM', 'SIGCONT'])
      expect(sent).toEqual([pid])
      expect(await exit).toEqual([null, 'SIGTERM'])
    })
  })

  it('reach the main process once when it enters during the signalling', async () => {
    await inCgroup('trap "" TERM; read -r go; echo $$ >"$0"; exec sleep 1000', async ({ containment, tree, sent, pid, ...scene }) => {
      scene.hooks.beforeSignal = () => {
        scene.child.stdin?.write('go\n')
        const untilMs = performance.now() + patienceMs
        while (scene.inside().length === 0 && performance.now() < untilMs);
      }
      await containment.signal(tree, ['SIGTERM', 'SIGCONT'])
      expect([sent, scene.inside()]).toEqual([[pid], [pid]])
    })
  })

  it('reach a process that was forked during the signalling, when its parent has died of the signal', async () => {
    await inCgroup('echo $$ >"$0"; echo inside; read -r go; sleep 1000 & wait', async ({ containment, tree, sent, pid, ...scene }) => {
      let late = 0
      scene.hooks.beforeSignal = () => {
        if (late > 0) return
        scene.child.stdin?.write('go\n')
        const untilMs = performance.now() + patienceMs
        while (late === 0 && performance.now() < untilMs) late = scene.inside().find((member) => member !== pid) ?? 0
      }
      await containment.signal(tree, ['SIGTERM', 'SIGCONT'])
      expect(sent).toEqual([pid])
      await containment.gone(tree, { signal: AbortSignal.timeout(patienceMs), clock: realClock })
      expect(sent).toEqual([pid, late])
    })
  })

  it('do not reach a process that was forked during the signalling while its parent lives', async () => {
    const script = 'echo $$ >"$0"; trap "wait; exit 0" TERM; echo inside; read -r go; sleep 0.3 & wait'
    await inCgroup(script, async ({ containment, tree, sent, pid, ...scene }) => {
      scene.hooks.beforeSignal = () => {
        scene.hooks.beforeSignal = () => {}
        scene.child.stdin?.write('go\n')
        const untilMs = performance.now() + patienceMs
        while (scene.inside().length < 2 && performance.now() < untilMs);
      }
      await containment.signal(tree, ['SIGTERM', 'SIGCONT'])
      await containment.gone(tree, { signal: AbortSignal.timeout(patienceMs), clock: realClock })
      expect(sent).toEqual([pid])
      expect(await scene.exit).toEqual([0, null])
    })
  })
})

interface Scene {
  readonly containment: CgroupContainment
  readonly tree: Tree
  readonly child: ChildProcess
  readonly pid: number
  readonly exit: Promise<unknown[]>
  /** The pids that a SIGTERM was sent to. */
  readonly sent: readonly number[]
  inside(): readonly number[]
  readonly hooks: { beforeSignal: () => void }
}

async function remove(place: string, inside: () => readonly number[]): Promise<void> {
  try {
    for (const pid of inside()) process.kill(pid, 'SIGKILL')
    await waitUntil(inside, 5_000, 'the cgroup is empty')
    rmdirSync(place)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error
  }
}
