import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { openEbb } from '../../../src/index.ts'
import { temporaryHome } from '../../support/home.ts'
import { seen } from '../../support/world.ts'

/** Requests in the library: scopes that close independently and finally, also by timeout or signal. */

const command = (...argv: string[]) => ({ type: 'command', configuration: { command: argv } }) as const

function isAlive(pid: number | undefined): boolean {
  if (pid === undefined) throw new Error('The agent has no process.')
  return seen(pid) !== undefined
}

test('request: leaving its block closes everything in it, and later launches are refused', async () => {
  await using ebb = await openEbb({ home: temporaryHome() })
  const pids: (number | undefined)[] = []
  const request = ebb.request('req-123')
  {
    await using scope = request
    for (let count = 0; count < 3; count++) pids.push((await scope.launch(command('sleep', '1000'))).pid)
    expect(pids.every(isAlive)).toBe(true)
  }
  expect(pids.some(isAlive)).toBe(false)
  await expect(request.launch(command('true'))).rejects.toMatchObject({ code: 'scope_closed' })
})

test('request: the id of a closed request cannot be used again, and closing it again succeeds', async () => {
  await using ebb = await openEbb({ home: temporaryHome() })
  const request = ebb.request('once')
  await request.launch(command('sleep', '1000'))
  expect(() => ebb.request('once')).toThrow(expect.objectContaining({ code: 'request_exists' }))
  const closing = request.close()
  expect(() => ebb.request('once')).toThrow(expect.objectContaining({ code: 'scope_closed' }))
  const report = await closing
  expect(await request.close()).toBe(report)
  expect(() => ebb.request('once')).toThrow(expect.objectContaining({ code: 'scope_closed' }))
  const again = { success: true, trigger: 'request-finished', scope: { kind: 'request', id: 'once' }, resources: [] }
  expect(await ebb.cleanup({ scope: 'single', requestId: 'once' })).toMatchObject(again)
  await expect(ebb.cleanup({ scope: 'single', requestId: 'never' })).rejects.toMatchObject({ code: 'request_not_found' })
})

test('cleanup: scope all is refused together with a requestId or an agentId', async () => {
  await using ebb = await openEbb({ home: temporaryHome() })
  const agent = await ebb.request('r').launch(command('sleep', '1000'))
  for (const one of [{ requestId: 'r' }, { agentId: agent.id }])
    await expect(ebb.cleanup({ scope: 'all', ...one })).rejects.toMatchObject({ code: 'bad_usage' })
  expect(isAlive(agent.pid)).toBe(true)
})

test('request: closing one that a reset has ended does not affect a new one with the same id', async () => {
  await using ebb = await openEbb({ home: temporaryHome() })
  const { signal } = new AbortController()
  const old = ebb.request('r', { timeoutMs: 600_000, signal })
  ebb.request('over').close()
  expect(await ebb.reset()).toMatchObject({ success: true })
  expect(getEventListeners(signal, 'abort')).toEqual([])
  const agent = await ebb.request('r').launch(command('sleep', '1000'))
  expect(await old.close()).toMatchObject({ success: true })
  expect(isAlive(agent.pid)).toBe(true)
  expect(await ebb.cleanup({ scope: 'single', requestId: 'r' })).toMatchObject({ success: true, cleanedAgentsCount: 1 })
  expect(isAlive(agent.pid)).toBe(false)
  ebb.request('over')
})

test.each([0, -1, Number.NaN, 2_147_483_648])('request: a timeout of %s ms is refused', async (timeoutMs) => {
  await using ebb = await openEbb({ home: temporaryHome() })
  expect(() => ebb.request('r', { timeoutMs })).toThrow(expect.objectContaining({ code: 'bad_usage' }))
})

test('launch: a placement without settings is refused before anything is created', async () => {
  const home = temporaryHome()
  await using ebb = await openEbb({ home })
  for (const [placement, setting] of Object.entries({ docker: 'docker.image', ecs: 'ecs.cluster', remote: 'remote.url' }))
    await expect(ebb.launch({ ...command('true'), placement })).rejects.toMatchObject({
      code: 'launch_refused',
      message: expect.stringContaining(setting),
    })
  expect(await ebb.status()).toMatchObject({ isClean: true })
})

test('request: closing one leaves another one running', async () => {
  await using ebb = await openEbb({ home: temporaryHome() })
  const one = await ebb.request('one').launch(command('sleep', '1000'))
  const other = await ebb.request('other').launch(command('sleep', '1000'))
  const report = await ebb.cleanup({ scope: 'single', requestId: 'one' })
  expect(report).toMatchObject({ success: true, trigger: 'request-finished', scope: { kind: 'request' } })
  expect([isAlive(one.pid), isAlive(other.pid)]).toEqual([false, true])
})

test('request: ends at its timeout and when its signal aborts', async () => {
  await using ebb = await openEbb({ home: temporaryHome() })
  const abort = new AbortController()
  const aborted = await ebb.request('aborted', { signal: abort.signal }).launch(command('sleep', '1000'))
  // The request with the timeout is launched last and has enough time, because a launch is refused if its request ends first.
  const timed = await ebb.request('timed', { timeoutMs: 3_000 }).launch(command('sleep', '1000'))
  abort.abort()
  await Promise.all([timed.ended, aborted.ended])
  expect([isAlive(timed.pid), isAlive(aborted.pid)]).toEqual([false, false])
})
