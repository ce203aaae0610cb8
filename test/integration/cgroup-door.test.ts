import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Effects } from '../../src/ports/effects.ts'
import type { Host } from '../../src/ports/host.ts'
import { CgroupContainment } from '../../src/resources/process-tree/cgroup.ts'
import type { Tree } from '../../src/resources/process-tree/containment.ts'
import { procTable } from '../../src/resources/process-tree/proc.ts'
import { needs } from '../support/real.ts'
import { hierarchies, ownCgroup2, seen, waitUntil } from '../support/world.ts'

/**
 * A launch has answered when its main process exists, which may still be at the door of its cgroup. A close in this
 * moment must ask it to leave all the same, or it enters unasked and the whole grace is waited for in vain.
 */
describe('a main process that is still at the door of its cgroup', () => {
  needs('cgroup')

  it.each([
    ['before it has entered', 'read -r go'],
    ['when it has', 'echo $$ >"$0"; echo inside; read -r go'],
  ])('is told to leave %s', async (_when, wait) => {
    const installation = `door${process.pid}`
    const own = ownCgroup2() ?? ''
    const place = join(own, `ebb-${installation}`)
    mkdirSync(place)
    const child = spawn('/bin/sh', ['-c', `${wait}; echo $$ >"$0"; exec sleep 1000`, join(place, 'cgroup.procs')])
    const exit = once(child, 'exit')
    try {
      if (wait.includes('inside')) await once(child.stdout, 'data')
      const main = { pid: child.pid ?? 0, startTime: seen(child.pid ?? 0)?.startTime ?? '' }
      const mountPoint = hierarchies().find(({ version }) => version === 2)?.mountPoint ?? ''
      const sent: number[] = []
      const effects = {
        signal: (pid: number, signal: NodeJS.Signals) => {
          if (signal === 'SIGTERM') sent.push(pid)
          process.kill(pid, signal)
        },
      } as unknown as Effects
      const host = { installation, incarnationId: 'none' } as unknown as Host
      const containment = new CgroupContainment({ mountPoint, own }, { effects, host, processes: procTable, inheritedCookie: undefined })
      await containment.signal({ main, place, limitPlaces: [] } as unknown as Tree, ['SIGTERM', 'SIGCONT'])
      expect(sent).toEqual([main.pid])
      expect(await exit).toEqual([null, 'SIGTERM'])
    } finally {
      child.kill('SIGKILL')
      await waitUntil(() => child.exitCode !== null || child.signalCode !== null, 5_000, 'it has ended')
      rmdirSync(place)
    }
  })
})
