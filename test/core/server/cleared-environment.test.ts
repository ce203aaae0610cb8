import { describe, expect, it } from 'vitest'
import { fixture } from '../../support/fixtures.ts'
import { currentMark, markVariable } from '../../support/mark.ts'
import { needs } from '../../support/real.ts'
import type { Json } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'
import { hierarchies, survivors, waitUntil } from '../../support/world.ts'

/** A daemon that forked twice, called setsid and cleared its environment is listed while it runs, and ends with its agent. */

const unified = (): string => hierarchies().find(({ version }) => version === 2)?.mountPoint ?? ''

describe.each([
  { containment: 'cgroup', what: 'that also left its cgroup', leaves: () => [unified()] },
  { containment: 'scan', what: 'without any cgroup', leaves: () => [] },
] as const)('under $containment, a daemon with a cleared environment $what', ({ containment, leaves }) => {
  needs('gcc', containment)
  const server = useServer(['--containment', containment])

  it('is counted and listed, and is gone after the stop of its agent', async () => {
    const mark = `${currentMark()}cleared-`
    const command = [fixture('daemonizes-without-environment'), fixture('waits'), ...leaves(), mark]
    const id = await server.command(['sh', '-c', '"$@"; exec sleep 1000', 'sh', ...command], { env: { [markVariable]: mark } })
    const daemon = (): number | undefined => survivors(mark).find(({ environ, command: name }) => environ === '' && name === 'waits')?.pid
    await waitUntil(() => daemon() !== undefined, 15_000, 'the daemon stands')
    const pid = daemon()

    const { processes } = await server.get<Json>(`/api/agents/${id}/process`)
    expect((processes as Json[]).map((one) => one.pid)).toContain(pid)
    expect((await server.get<Json>('/api/cleanup/status')).runningProcesses).toBeGreaterThanOrEqual(2)

    const report = await server.post<Json>(`/api/agents/${id}/stop`, { grace: 1_000 })
    expect(report).toMatchObject({ success: true, errors: [] })
    // Only a scan finds a daemon that left its cgroup or has none, so the proof is only as strong as a scan.
    expect(report.resources).toContainEqual(
      expect.objectContaining({ kind: 'process-tree', proof: expect.objectContaining({ strength: 'scan' }) }),
    )
    expect(daemon()).toBe(undefined)
  })
})
