import { median, type Row, timed } from './measure.ts'
import { launch, withSupervisor } from './supervisor.ts'

/** Measures a reaper pass over many held resources, and the processor time of idle agents. */
export async function benchReaper(): Promise<readonly Row[]> {
  return await withSupervisor(async (supervisor) => {
    for (let count = 0; count < 500; count++) await launch(supervisor, ['sleep', '1000'])
    const idle = await idleShare()
    for (let count = 0; count < 500; count++) await launch(supervisor, ['sleep', '1000'])
    const passes: number[] = []
    for (let round = 0; round < 5; round++) {
      passes.push(
        await timed(async () => {
          const pass = await supervisor.engine.reap({ dryRun: false })
          if (pass.found.length > 0) throw new Error(`The reaper found ${pass.found.length} orphans among running agents.`)
        }),
      )
    }
    const passMs = median(passes)
    return [
      { name: 'idle cost of 500 agents', ebb: idle, unit: '% of a core', claim: 'under 1 %', kept: idle < 1 },
      { name: 'reaper pass over 1,000 held resources', ebb: passMs, unit: 'ms', claim: 'under 200 ms', kept: passMs < 200 },
    ]
  })
}

/** The share of a core that this process uses during five seconds without requests. */
async function idleShare(): Promise<number> {
  const windowMs = 5_000
  const before = process.cpuUsage()
  await new Promise<void>((resolve) => void setTimeout(() => resolve(), windowMs))
  const used = process.cpuUsage(before)
  return ((used.user + used.system) / 1_000 / windowMs) * 100
}
