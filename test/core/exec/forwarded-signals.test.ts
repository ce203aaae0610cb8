import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { temporaryHome } from '../../support/home.ts'
import { hookOn } from '../../support/hooked.ts'
import { openSupervisor } from '../../support/supervisor.ts'
import { waitUntil } from '../../support/world.ts'

/** `ebb exec` passes signals on through the handle of the process tree. */

it('signal of a tree: is an effect on the main process, and none once the process has ended (G10)', async () => {
  const signals: unknown[] = []
  const wrap = hookOn('effects', (method, args) => method === 'signal' && signals.push(args))
  await using supervisor = await openSupervisor({ watched: false, wrap, home: temporaryHome() })
  const { tree, stdout } = await supervisor.run(['/bin/sh', '-c', 'trap "exit 3" USR1; echo ready; while :; do sleep 0.01; done'])
  const main = { ...tree, signal: (signal: NodeJS.Signals): void => tree.signal?.(signal) }
  stdout.done()
  await waitUntil(() => readFileSync(stdout.path, 'utf8') === 'ready\n', 30_000, 'the trap is set')
  main.signal('SIGUSR1')
  expect(signals).toEqual([[main.pid, 'SIGUSR1']])
  expect(await main.exit).toEqual({ code: 3, signal: null })
  main.signal('SIGUSR1')
  expect(signals).toHaveLength(1)
})
