import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Effects } from '../../../src/core/ports/effects.ts'
import type { Host } from '../../../src/core/ports/host.ts'
import { realClock } from '../../../src/host/clock.ts'
import { CgroupContainment } from '../../../src/host/containment/cgroup.ts'
import { procTable } from '../../../src/host/processes/proc.ts'
import { needs } from '../../support/real.ts'
import { hierarchies, ownCgroup2, waitUntil } from '../../support/world.ts'

/**
 * `tidy` removes the cgroups that a supervisor leaves. The cgroup of the tmux server is removed last, because the tmux server exits by
 * itself shortly after its last session.
 */
describe('CgroupContainment.tidy', () => {
  needs('cgroup')

  const ctx = { signal: new AbortController().signal, clock: realClock }

  async function scene(test: (opened: Scene) => Promise<void>): Promise<void> {
    const installation = `tidy${process.pid}`
    const own = ownCgroup2() ?? ''
    const root = join(own, `ebb-${installation}`)
    const folders = [root, join(root, 'mine'), join(root, 'mine', 'end'), join(root, 'mine', 'keep'), join(root, 'tmux')]
    for (const folder of folders) mkdirSync(folder)
    const server = spawn('/bin/sh', ['-c', 'echo $$ >"$0"; echo inside; read -r go', join(root, 'tmux', 'cgroup.procs')])
    const exit = once(server, 'exit')
    const mountPoint = hierarchies().find(({ version }) => version === 2)?.mountPoint ?? ''
    const containment = new CgroupContainment(
      { mountPoint, own },
      {
        effects: { removeDirectory: rmdirSync } as unknown as Effects,
        host: { installation, incarnationId: 'mine' } as unknown as Host,
        processes: procTable,
        inheritedTag: undefined,
      },
    )
    try {
      await once(server.stdout, 'data')
      await test({ containment, server, root })
    } finally {
      server.kill('SIGKILL')
      await exit
      await waitUntil(() => folders.toReversed().every(isRemoved), 5_000, 'the folders of the test are gone')
    }
  }

  it('waits for a tmux server that is exiting, and removes all folders', async () => {
    await scene(async ({ containment, server, root }) => {
      const tidied = containment.tidy('mine', ctx)
      expect(existsSync(join(root, 'tmux'))).toBe(true)
      server.stdin?.end('go\n')
      await tidied
      expect(existsSync(root)).toBe(false)
    })
  })

  it('keeps the cgroup of a tmux server that stays', async () => {
    await scene(async ({ containment, server, root }) => {
      await containment.tidy('mine', ctx)
      expect(existsSync(join(root, 'mine'))).toBe(false)
      expect(existsSync(join(root, 'tmux'))).toBe(true)
      expect(server.exitCode).toBe(null)
    })
  })
})

interface Scene {
  readonly containment: CgroupContainment
  readonly server: ChildProcess
  readonly root: string
}

/** The cgroup of a dead process may stay busy for a moment, so the removal is tried again. */
function isRemoved(folder: string): boolean {
  try {
    rmdirSync(folder)
  } catch {
    // The cgroup is still busy, or it is already removed.
  }
  return !existsSync(folder)
}
