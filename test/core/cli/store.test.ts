import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { type Ended, ebb, startEbb, temporaryHome } from '../../support/home.ts'
import { installationOf } from '../../support/ledger-file.ts'
import { type Json, startServer } from '../../support/server.ts'
import { processesOfHome, waitUntil } from '../../support/world.ts'

/** A server may keep its records elsewhere than in its home; whoever looks after that home has to look there, too. */

const asJson = async (ended: Promise<Ended>): Promise<Json> => JSON.parse((await ended).stdout.toString('utf8'))
const nobody = (home: string): Promise<void> =>
  waitUntil(() => processesOfHome(home, installationOf(home)).map(({ command }) => command), 20_000, 'nobody of the home is left')

it('status, reap and exec beside a server take its records, without being told', async () => {
  const home = temporaryHome()
  const cwd = temporaryHome()
  await using server = await startServer(['--store', 'sqlite:records.db'], { home, cwd })
  const id = await server.command(['sleep', '1000'])
  const running = startEbb(['exec', '--', 'sh', '-c', 'echo ready; read line || :'], { home })
  await running.says('ready')
  const status = await ebb(['status', '--json'], { home })
  expect(status.code).toBe(0)
  expect(JSON.parse(status.stdout.toString('utf8'))).toMatchObject({ leaks: [], agentCount: 2, resources: { 'process-tree': { held: 2 } } })
  // Nor is the command something that nobody knows for the server.
  expect(await server.get('/api/cleanup/status')).toMatchObject({ leaks: [] })
  expect(await asJson(ebb(['reap', '--dry-run', '--json', '--reaper-minimum-age', '0ms'], { home }))).toMatchObject({ found: [] })
  running.endInput()
  expect(await running.ended).toMatchObject({ code: 0 })
  expect(await server.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
  expect(existsSync(join(home, 'ebb.db'))).toBe(false)
})

it('what a killed server left is recovered where its records are, by whoever knows them or is told', async () => {
  for (const told of [[], ['--store', 'sqlite:records.db']]) {
    const home = temporaryHome()
    const cwd = temporaryHome()
    const server = await startServer(['--store', 'sqlite:records.db'], { home, cwd })
    await server.command(['sleep', '1000'])
    // Nobody is left who would do it by himself, or start another who does.
    server.ebb.signal('SIGSTOP')
    const watcher = processesOfHome(home, installationOf(home)).find(({ argv }) => argv.startsWith('ebb-sentinel'))
    if (!watcher) throw new Error('No sentinel watches.')
    process.kill(watcher.pid, 'SIGKILL')
    server.ebb.signal('SIGKILL')
    await server.ebb.ended
    if (told.length > 0) rmSync(join(home, 'server.json'))
    const recovered = await ebb(['recover', ...told], { home, cwd })
    expect(recovered.stdout.toString('utf8')).toMatch(/^Recovered 1 scopes of dead supervisors: \d+ resources released, 0 left\.\n$/)
    expect(await ebb(['status', ...told], { home, cwd })).toMatchObject({ code: 0 })
    await nobody(home)
  }
})

it('a sentinel recovers in the records of its own supervisor, though a server has come that keeps others', async () => {
  const home = temporaryHome()
  const running = startEbb(['exec', '--', 'sh', '-c', 'echo ready; sleep 1000'], { home })
  await running.says('ready')
  await using server = await startServer(['--store', `sqlite:${join(temporaryHome(), 'records.db')}`], { home })
  running.signal('SIGKILL')
  await running.ended
  const contents = ['--store', `sqlite:${join(home, 'ebb.db')}`]
  const left = async (): Promise<readonly string[]> =>
    Object.keys((await asJson(ebb(['status', '--json', ...contents], { home }))).resources)
  await waitUntil(left, 20_000, 'the sentinel has closed the books')
  expect(await server.get('/api/cleanup/status')).toMatchObject({ leaks: [], runningProcesses: 0 })
})

it('records that are gone are nobody’s: the home has its own', async () => {
  const home = temporaryHome()
  const cwd = temporaryHome()
  const server = await startServer(['--store', 'sqlite:records.db'], { home, cwd })
  server.ebb.signal('SIGKILL')
  await server.ebb.ended
  await nobody(home)
  rmSync(cwd, { recursive: true })
  expect(await ebb(['status'], { home })).toMatchObject({ code: 0 })
  expect(existsSync(cwd)).toBe(false)
})
