import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, it } from 'vitest'
import { environmentTag, environmentTagName } from '../../../src/core/model/identity.ts'
import type { Effects } from '../../../src/core/ports/effects.ts'
import { realClock } from '../../../src/host/clock.ts'
import type { Tree } from '../../../src/host/containment/containment.ts'
import { ScanContainment } from '../../../src/host/containment/scan.ts'
import { openHost } from '../../../src/host/host.ts'
import { procTable } from '../../../src/host/processes/proc.ts'
import { processes } from '../../support/world.ts'

/** Signals to a tree under the containment `scan` while its main process forks. */

const patienceMs = 5_000

/** The main process forks when it reads `go`. The test writes it between the listing of the members and the first signal. */
async function signalWhileForking(script: string): Promise<{ sent: readonly number[]; main: number; forked: number; exit: unknown }> {
  const host = openHost(`scan${process.pid}`, procTable)
  const mark = { installation: host.installation, incarnation: host.incarnationId, resourceId: 'agent.1' }
  const child = spawn('/bin/sh', ['-c', script], { env: { ...process.env, [environmentTagName]: environmentTag(mark) } })
  const exit = once(child, 'exit')
  const main = child.pid ?? 0
  const others = (): readonly number[] =>
    processes().flatMap(({ pid, environ }) => (pid !== main && environ.includes(environmentTag(mark)) ? [pid] : []))
  const sent: number[] = []
  let forked = 0
  const signal = (pid: number, name: NodeJS.Signals): void => {
    if (forked === 0) child.stdin.write('go\n')
    for (const untilMs = performance.now() + patienceMs; forked === 0 && performance.now() < untilMs; ) forked = others()[0] ?? 0
    if (name === 'SIGTERM') sent.push(pid)
    process.kill(pid, name)
  }
  const unlink = (): void => {}
  const effects = { signal, unlink } as unknown as Effects
  const scan = new ScanContainment({ effects, host, processes: procTable, inheritedTag: undefined, directory: '/nonexistent' })
  const tree = { mark, main: undefined, place: '/nonexistent/gate', limitPlaces: [] } as unknown as Tree
  try {
    await once(child.stdout, 'data')
    await scan.signal(tree, ['SIGTERM', 'SIGCONT'])
    await scan.gone(tree, { signal: AbortSignal.timeout(patienceMs), clock: realClock })
    return { sent, main, forked, exit: await exit }
  } finally {
    child.kill('SIGKILL')
    for (const pid of others()) process.kill(pid, 'SIGKILL')
    await exit
  }
}

it('scan signals a process that was forked during the signalling, when its parent has died of the signal', async () => {
  const { sent, main, forked } = await signalWhileForking('echo ready; read -r go; sleep 1000 & wait')
  expect(sent).toEqual([main, forked])
})

it('scan leaves a process that was forked during the signalling to its parent while the parent lives', async () => {
  const { sent, main, exit } = await signalWhileForking('trap "wait; exit 0" TERM; echo ready; read -r go; sleep 0.3 & wait')
  expect(sent).toEqual([main])
  expect(exit).toEqual([0, null])
})
