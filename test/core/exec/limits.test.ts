import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Limits } from '../../../src/core/ports/process.ts'
import { temporaryHome } from '../../support/home.ts'
import { installationOf, leftInHome, openBooks } from '../../support/ledger-file.ts'
import { startOther } from '../../support/other-supervisor.ts'
import { needs } from '../../support/real.ts'
import { openSupervisor, type TestSupervisor } from '../../support/supervisor.ts'
import { cgroupsOf, processesOfHome, waitUntil } from '../../support/world.ts'

/** Limits on memory and processes of a run, where the kernel offers them. */

const megabyte = 1_024 * 1_024
const own = (): number => Number(readFileSync('/proc/self/oom_score_adj', 'utf8'))
const openCgroup = (): Promise<TestSupervisor> => openSupervisor({ watched: false, flags: { containment: 'cgroup' } })
const limitFolders = ({ home }: TestSupervisor): readonly string[] =>
  cgroupsOf(home.installation).filter((path) => path.includes(`ebb-${home.installation}.`))

describe('limits', () => {
  needs('cgroup', 'v1 memory controller', 'v1 pids controller')

  it('a run that exceeds its memory limit is killed, and no other run', async () => {
    await using supervisor = await openCgroup()
    // tail(1) keeps a whole line in memory. The line of /dev/zero never ends, so tail exceeds the limit.
    const greedy = await supervisor.run(['/usr/bin/tail', '/dev/zero'], { limits: { memoryBytes: 32 * megabyte } })
    const modest = await supervisor.run(['/bin/sleep', '1000'], { limits: { memoryBytes: 32 * megabyte } })
    expect(await greedy.tree.exit).toEqual({ code: null, signal: 'SIGKILL' })
    expect(processesOfHome(supervisor.home.directory, supervisor.home.installation).map(({ pid }) => pid)).toContain(modest.tree.pid)
    expect(await supervisor.engine.close(greedy.scope.id, { trigger: 'completed' })).toMatchObject({ success: true })
  })

  it('a run never has more processes than its limit', async () => {
    await using supervisor = await openCgroup()
    const run = await supervisor.run(['/bin/sh', '-c', 'for i in $(seq 60); do (exec sleep 1000) & done 2>/dev/null; wait'], {
      limits: { pids: 12 },
    })
    const [folder = ''] = limitFolders(supervisor)
    await waitUntil(
      () => Number(/^max (\d+)/m.exec(readFileSync(join(folder, 'pids.events'), 'utf8'))?.[1]) > 0,
      30_000,
      'the limit was reached',
    )
    expect(readFileSync(join(folder, 'cgroup.procs'), 'utf8').trim().split('\n').length).toBeLessThanOrEqual(12)
    expect(await supervisor.engine.close(run.scope.id, { trigger: 'terminated', force: true })).toMatchObject({ success: true })
    expect(existsSync(folder)).toBe(false)
  })

  it('the v1 limit folders are removed with the run', async () => {
    await using supervisor = await openCgroup()
    const run = await supervisor.run(['/bin/sleep', '1000'], { limits: { memoryBytes: 64 * megabyte, pids: 50 } })
    expect(limitFolders(supervisor)).toHaveLength(2)
    await supervisor.engine.close(run.scope.id, { trigger: 'terminated', force: true })
    expect(limitFolders(supervisor)).toEqual([])
  })

  it('the v1 limit folders are removed after the supervisor was killed', async () => {
    const home = temporaryHome()
    await using other = await startOther({
      home,
      containment: 'cgroup',
      argv: ['/bin/sleep', '1000'],
      limits: { memoryBytes: 64 * megabyte, pids: 50 },
    })
    const installation = installationOf(home) ?? ''
    expect(cgroupsOf(installation).filter((path) => path.includes(`ebb-${installation}.`))).toHaveLength(2)
    await other.kill()
    const left = (): readonly unknown[] => [
      ...cgroupsOf(installation),
      ...openBooks(home),
      ...leftInHome(home),
      ...processesOfHome(home, installation),
    ]
    await waitUntil(left, 30_000, 'nothing is left')
  })

  it('a limit that the kernel refuses makes the launch fail, and leaves nothing', async () => {
    await using supervisor = await openCgroup()
    const impossible: Limits = { memoryBytes: 64 * megabyte, pids: 5_000_000_000 }
    await expect(supervisor.run(['/bin/true'], { limits: impossible })).rejects.toMatchObject({
      code: expect.stringMatching(/limits_unavailable|launch_failed/),
    })
    expect(limitFolders(supervisor)).toEqual([])
    expect(leftInHome(supervisor.home.directory)).toEqual([])
  })
})

describe('limits under scan', () => {
  it.each([{ memoryBytes: megabyte }, { pids: 5 }, { memoryBytes: megabyte, pids: 5 }])(
    '%j is refused with limits_unavailable, and nothing is made',
    async (limits) => {
      await using supervisor = await openSupervisor({ watched: false, flags: { containment: 'scan' } })
      await expect(supervisor.run(['/bin/true'], { limits })).rejects.toMatchObject({
        code: 'limits_unavailable',
        message: expect.stringContaining('ebb doctor'),
      })
      expect(leftInHome(supervisor.home.directory)).toEqual([])
    },
  )

  it('an empty set of limits is accepted', async () => {
    await using supervisor = await openSupervisor({ watched: false, flags: { containment: 'scan' } })
    const run = await supervisor.run(['/bin/true'], { limits: {} })
    expect(await run.tree.exit).toMatchObject({ code: 0 })
  })
})

describe.each(['cgroup', 'subreaper', 'scan'] as const)('out-of-memory score (%s)', (containment) => {
  needs(containment)

  it('the command and its children have a higher score than the supervisor', async () => {
    await using supervisor = await openSupervisor({ watched: false, flags: { containment } })
    const run = await supervisor.run(['/bin/sh', '-c', 'cat /proc/self/oom_score_adj; sh -c "cat /proc/self/oom_score_adj"'])
    await run.tree.exit
    await supervisor.engine.close(run.scope.id, { trigger: 'completed' })
    const scores = readFileSync(run.stdout.archive, 'utf8').trim().split('\n').map(Number)
    expect(scores).toHaveLength(2)
    expect(Math.min(...scores)).toBeGreaterThan(own())
  })
})
