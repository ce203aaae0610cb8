import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { type Ended, ebb, startEbb, temporaryHome } from '../../support/home.ts'
import { installationOf } from '../../support/ledger-file.ts'
import { type Json, startServer } from '../../support/server.ts'
import { processesOfHome, waitUntil } from '../../support/world.ts'

/** A server may keep its ledger outside its home. Other commands on that home must find it. */

const asJson = async (ended: Promise<Ended>): Promise<Json> => JSON.parse((await ended).stdout.toString('utf8'))
const homeHasNoProcess = (home: string): Promise<void> =>
  waitUntil(() => processesOfHome(home, installationOf(home)).map(({ command }) => command), 20_000, 'no process of the home is left')

it('store: status, reap and exec beside a server use its ledger without options', async () => {
  const home = temporaryHome()
  const cwd = temporaryHome()
  await using server = await startServer(['--store', 'sqlite:records.db'], { home, cwd })
  const id = await server.command(['sleep', '1000'])
  const running = startEbb(['exec', '--', 'sh', '-c', 'echo ready; read line || :'], { home })
  await running.says('ready')
  const status = await ebb(['status', '--json'], { home })
  expect(status.code).toBe(0)
  expect(JSON.parse(status.stdout.toString('utf8'))).toMatchObject({ leaks: [], agentCount: 2, resources: { 'process-tree': { held: 2 } } })
  // Neither `ebb status` nor the server may report the command of `ebb exec` as a leak.
  expect(await server.get('/api/cleanup/status')).toMatchObject({ leaks: [] })
  expect(await asJson(ebb(['reap', '--dry-run', '--json', '--reaper-minimum-age', '0ms'], { home }))).toMatchObject({ found: [] })
  running.endInput()
  expect(await running.ended).toMatchObject({ code: 0 })
  expect(await server.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
  expect(existsSync(join(home, 'ebb.db'))).toBe(false)
})

it('store: "ebb recover" recovers a killed server in the server\'s ledger, found by server.json or by --store', async () => {
  for (const options of [[], ['--store', 'sqlite:records.db']]) {
    const home = temporaryHome()
    const cwd = temporaryHome()
    const server = await startServer(['--store', 'sqlite:records.db'], { home, cwd })
    await server.command(['sleep', '1000'])
    // The sentinel is killed too, so that only `ebb recover` can recover.
    server.ebb.signal('SIGSTOP')
    const watcher = processesOfHome(home, installationOf(home)).find(({ argv }) => argv.startsWith('ebb-sentinel'))
    if (!watcher) throw new Error('No sentinel process was found.')
    process.kill(watcher.pid, 'SIGKILL')
    server.ebb.signal('SIGKILL')
    await server.ebb.ended
    if (options.length > 0) rmSync(join(home, 'server.json'))
    const recovered = await ebb(['recover', ...options], { home, cwd })
    expect(recovered.stdout.toString('utf8')).toMatch(/^Recovered 1 scope of dead supervisors: \d+ resources? released, 0 left\.\n$/)
    expect(await ebb(['status', ...options], { home, cwd })).toMatchObject({ code: 0 })
    await homeHasNoProcess(home)
  }
})

it('store: a sentinel recovers in the ledger of its own supervisor, even when a new server uses another', async () => {
  const home = temporaryHome()
  const running = startEbb(['exec', '--', 'sh', '-c', 'echo ready; sleep 1000'], { home })
  await running.says('ready')
  await using server = await startServer(['--store', `sqlite:${join(temporaryHome(), 'records.db')}`], { home })
  running.signal('SIGKILL')
  await running.ended
  const contents = ['--store', `sqlite:${join(home, 'ebb.db')}`]
  const left = async (): Promise<readonly string[]> =>
    Object.keys((await asJson(ebb(['status', '--json', ...contents], { home }))).resources)
  await waitUntil(left, 20_000, 'the sentinel has closed the ledger')
  expect(await server.get('/api/cleanup/status')).toMatchObject({ leaks: [], runningProcesses: 0 })
})

it('store: a home whose external ledger is gone uses its own', async () => {
  const home = temporaryHome()
  const cwd = temporaryHome()
  const server = await startServer(['--store', 'sqlite:records.db'], { home, cwd })
  server.ebb.signal('SIGKILL')
  await server.ebb.ended
  await homeHasNoProcess(home)
  rmSync(cwd, { recursive: true })
  expect(await ebb(['status'], { home })).toMatchObject({ code: 0 })
  expect(existsSync(cwd)).toBe(false)
})
