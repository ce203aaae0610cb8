import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { loadConfig } from '../../../src/config/config.ts'
import { compose } from '../../../src/main.ts'
import { partsOf } from '../../support/engine-parts.ts'
import { ebb, nodeProgram, root, startEbb, temporaryHome } from '../../support/home.ts'
import { waitUntil } from '../../support/world.ts'

const open = (home: string) => compose(loadConfig({ flags: new Map([['home', home]]) }))

/** Starts another process that registers as the server of this home, and waits until it has. */
async function otherServer(home: string): Promise<{ pid: number; kill(): Promise<void> }> {
  const program = `
    const { compose } = await import(${JSON.stringify(`${root}/src/main.ts`)})
    const { loadConfig } = await import(${JSON.stringify(`${root}/src/config/config.ts`)})
    const supervisor = await compose(loadConfig({ flags: new Map([['home', ${JSON.stringify(home)}]]) }), { watched: false })
    await supervisor.engine.begin({ role: 'server', address: 'http://127.0.0.1:4400' })
    console.log('registered')
    setInterval(() => {}, 1000)`
  const child = spawn(nodeProgram, ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  return {
    pid: child.pid ?? 0,
    kill: async () => {
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  }
}

test('second server: is refused on the same home with the pid and address of the first', async () => {
  const home = temporaryHome()
  const first = await otherServer(home)
  const second = await open(home)
  const refusal = second.engine.begin({ role: 'server', address: 'http://127.0.0.1:4401' })
  await expect(refusal).rejects.toMatchObject({ code: 'server_running' })
  await expect(refusal).rejects.toThrow(new RegExp(`pid ${first.pid}, http://127.0.0.1:4400`))
  await first.kill()
  await second.engine.shutDown()
  await second.close()
  expect((await ebb(['recover'], { home })).code).toBe(0)
})

test('second server: replaces a dead server and recovers it', async () => {
  const home = temporaryHome()
  const first = await otherServer(home)
  await first.kill()
  const second = await open(home)
  await second.engine.begin({ role: 'server', address: 'http://127.0.0.1:4401' })
  const recovery = await second.engine.recover()
  expect(recovery.errors).toEqual([])
  const incarnations = await partsOf(second.engine).ledger.incarnations()
  expect(incarnations).toMatchObject([{ role: 'server', address: 'http://127.0.0.1:4401' }])
  await second.engine.shutDown()
  await second.close()
})

test('ebb exec: many run beside a server on one home', async () => {
  const home = temporaryHome()
  const server = await open(home)
  await server.engine.begin({ role: 'server', address: 'http://127.0.0.1:4400' })
  const runs = await Promise.all(Array.from({ length: 8 }, (_, code) => ebb(['exec', '--', 'sh', '-c', `exit ${code}`], { home })))
  expect(runs.map(({ code }) => code)).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
  // A process that cannot remove its incarnation from the ledger in time leaves the removal to its sentinel.
  const { ledger } = partsOf(server.engine)
  await waitUntil(async () => (await ledger.incarnations()).length === 1, 15_000, 'the other incarnations have left the ledger')
  expect(await ledger.incarnations()).toMatchObject([{ role: 'server' }])
  await server.engine.shutDown()
  await server.close()
})

test('recovery: touches nothing of a living supervisor', async () => {
  const home = temporaryHome()
  const living = await open(home)
  const scope = living.engine.openScope({ id: living.newId(), kind: 'agent' })
  const launch = { argv: ['sleep', '1000'], env: { PATH: '/usr/bin:/bin' }, cwd: '/', output: 'inherit', stdin: 'ignore' } as const
  await living.engine.launch(scope, living.plan(scope.id, launch))
  for (const command of [['recover'], ['reap'], ['reap', '--dry-run']]) {
    const run = await ebb(command, { home })
    expect([run.code, run.stdout.toString()]).toEqual([0, expect.stringMatching(/Nothing to/)])
  }
  const status = await ebb(['status', '--json'], { home })
  expect(JSON.parse(status.stdout.toString())).toMatchObject({ isClean: false, agentCount: 1, runningProcesses: 1, leaks: [], stuck: [] })
  await living.engine.shutDown()
  await living.close()
})

/** Creates a dead supervisor whose recovery a living process has claimed and does not finish. */
async function claimed(home: string) {
  const dead = await otherServer(home)
  await dead.kill()
  const living = await open(home)
  const { ledger, host } = partsOf(living.engine)
  await living.engine.begin()
  const [id = ''] = (await ledger.incarnations()).map((record) => record.id).filter((incarnation) => incarnation !== host.incarnationId)
  expect(await ledger.claim(id, host.incarnationId, undefined)).toBe(true)
  const ids = async (): Promise<readonly string[]> => (await ledger.incarnations()).map((record) => record.id)
  return {
    id,
    ids,
    unclaim: () => ledger.unclaim(id, host.incarnationId),
    leave: async () => {
      await living.engine.shutDown()
      await living.close()
    },
  }
}

test('ebb recover: waits for a recovery by another process, and finishes it when that one gives up', async () => {
  const home = temporaryHome()
  const { id, ids, unclaim, leave } = await claimed(home)
  const recovering = startEbb(['recover'], { home, input: '' })
  await Promise.race([waitUntil(async () => (await ids()).length === 3, 15_000, 'the recovery has begun'), recovering.ended])
  await unclaim()
  const { code, stdout } = await recovering.ended
  expect([code, stdout.toString()]).toEqual([0, expect.not.stringContaining('busy')])
  expect(await ids()).not.toContain(id)
  await leave()
})

test('ebb recover: reports busy and exits with 1 when another process does not finish its recovery', async () => {
  const home = temporaryHome()
  const { id, unclaim, leave } = await claimed(home)
  const { code, stdout } = await ebb(['recover'], { home })
  expect([code, stdout.toString()]).toEqual([1, expect.stringContaining(`busy     incarnation ${id} is being recovered`)])
  await unclaim()
  expect((await ebb(['recover'], { home })).code).toBe(0)
  await leave()
})
