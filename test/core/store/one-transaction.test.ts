import type * as fs from 'node:fs'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Composition } from '../../../src/supervisor.ts'
import { temporaryHome } from '../../support/home.ts'
import { openSupervisor } from '../../support/supervisor.ts'
import { commitsInWal } from '../../support/wal.ts'
import { newAgent, newMessage } from './agent-records.ts'

/**
 * A launch writes everything that must be known before its first effect in one transaction, with one sync to the disk, whatever the caller
 * awaits between opening the scopes and launching into them. The transactions are counted in the database's own log.
 */

const { syncs } = vi.hoisted(() => ({ syncs: { count: 0 } }))

vi.mock('node:fs', async (original) => {
  const real = await original<typeof fs>()
  const counted = <F extends (...args: never[]) => unknown>(sync: F): F =>
    ((...args: Parameters<F>) => {
      syncs.count += 1
      return sync(...args)
    }) as F
  return { ...real, fdatasync: counted(real.fdatasync as never), fdatasyncSync: counted(real.fdatasyncSync) }
})

let database = ''
/** The commits at the first effect of each launch. */
let commits: number[] = []

beforeEach(() => {
  syncs.count = 0
  commits = []
})

afterEach(() => {
  database = ''
})

/** Notes the commits at each start of a process. */
const wrap: NonNullable<Composition['wrap']> = (name, port) =>
  name === 'effects'
    ? new Proxy(port, {
        get: (target, key) => {
          if (key === 'spawn' && database !== '') commits.push(commitsInWal(database))
          return Reflect.get(target, key)
        },
      })
    : port

const pauses = {
  nothing: async () => {},
  'a microtask': async () => await Promise.resolve(),
  'a turn of the event loop': async () => await new Promise<void>((resolve) => setImmediate(resolve)),
}

describe.each(Object.entries(pauses))('launch: with %s awaited between opening and launching', (_name, between) => {
  it('one transaction has the incarnation, the scopes, the row and the intents, and one sync follows', async () => {
    const home = temporaryHome()
    await using supervisor = await openSupervisor({ home, watched: false, wrap })
    const { engine, agents } = supervisor
    const request = engine.openScope({ id: 'request', kind: 'request' })
    await between()
    const scope = engine.openScope({ id: supervisor.newId(), kind: 'agent', parentId: request.id })
    const plan = supervisor.plan(scope.id, { argv: ['true'], env: {}, cwd: home, output: 'inherit', stdin: 'ignore' })
    await between()
    database = supervisor.home.database
    const before = commitsInWal(database)
    const row = agents.newAgent(newAgent(scope.id, { incarnation: scope.incarnation }), newMessage('a prompt'))
    await engine.launch(scope, plan, [row])
    expect([commits.map((count) => count - before), syncs.count]).toEqual([[1], 1])
  })

  it('a command without rows syncs nothing', async () => {
    const home = temporaryHome()
    await using supervisor = await openSupervisor({ home, watched: false, wrap })
    const scope = supervisor.engine.openScope({ id: supervisor.newId(), kind: 'agent' })
    const plan = supervisor.plan(scope.id, { argv: ['true'], env: {}, cwd: home, output: 'inherit', stdin: 'ignore' })
    await between()
    database = supervisor.home.database
    const before = commitsInWal(database)
    await supervisor.engine.launch(scope, plan)
    expect([commits.map((count) => count - before), syncs.count]).toEqual([[1], 0])
  })
})

it('agents.launch: the first agent of a new namespace costs one transaction and one sync before its process starts', async () => {
  const home = temporaryHome()
  await using supervisor = await openSupervisor({ home, watched: false, wrap })
  await supervisor.engine.begin()
  const control = await supervisor.control()
  database = supervisor.home.database
  const before = commitsInWal(database)
  const configuration = { command: ['sleep', '1000'], workingDirectory: home }
  await control.agents.launch({ type: 'command', prompt: 'a prompt', namespace: 'new', configuration })
  expect([commits[0], syncs.count]).toEqual([before + 1, 1])
  await control.close()
})
