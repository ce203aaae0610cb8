import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { nextTurn } from '../../../../src/core/ports/turn.ts'
import { realEffects } from '../../../../src/host/effects.ts'
import { FolderKind } from '../../../../src/kinds/file/folder.ts'
import { DirectoryKind, FileKind } from '../../../../src/kinds/file/kind.ts'
import type { Fate } from '../../../support/faults.ts'
import { type Life, listedKind, Simulation, thing, unlistedKind } from '../../../support/simulation.ts'

let simulation: Simulation
let life: Life

beforeEach(async () => {
  simulation = await Simulation.open()
  life = simulation.live()
})

afterEach(async () => {
  await simulation[Symbol.asyncDispose]()
  expect(simulation.world.violations).toEqual([])
})

const run = <T>(work: Promise<T>): Promise<T> => simulation.clock.run(work)

describe('launch', () => {
  test('is rolled back when it fails half-way: resources and records are gone', async () => {
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
    life.faults.next('create', ['well', 'well', 'refused'])
    const launched = life.engine.launch(scope, [thing('a'), thing('b', { dependsOn: ['a'] }), thing('c')])
    await expect(run(launched)).rejects.toMatchObject({ code: 'launch_failed', message: expect.stringContaining('create was refused') })
    expect(simulation.world.left()).toEqual([])
    expect((await run(simulation.store.contents())).scopes.map(({ id }) => id)).toEqual(['host-life1'])
    expect(life.reports).toMatchObject([{ success: true, trigger: 'launch-rollback' }])
  })

  test('is rolled back when a creation fails although the resource exists', async () => {
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
    life.faults.next('create', ['lost'])
    await expect(run(life.engine.launch(scope, [thing('a')]))).rejects.toMatchObject({ code: 'launch_failed' })
    expect(simulation.world.left()).toEqual([])
  })

  test.each<Fate>(['refused', 'lost'])('creates nothing and leaves no intent when the ledger write of the intents is %s', async (fate) => {
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
    life.faults.next('ledger.intend', [fate])
    await expect(run(life.engine.launch(scope, [thing('a')]))).rejects.toThrow(/ledger.intend/)
    const host = fate === 'lost' ? ['scope host-life1 open'] : []
    expect([simulation.world.left(), await simulation.openBooks()]).toEqual([[], host])
    await run(life.engine.launch(life.engine.openScope({ id: 'another', kind: 'agent' }), []))
    expect(await simulation.openBooks()).toEqual(['scope host-life1 open', 'scope another open'])
  })

  test('creates nothing when the supervisor could not register, because no recovery would find it', async () => {
    life.faults.next('ledger.register', ['refused'])
    await expect(run(life.engine.begin())).rejects.toThrow(/ledger.register/)
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
    await expect(run(life.engine.launch(scope, [thing('a')]))).rejects.toThrow()
    expect([simulation.world.left(), simulation.world.lastSeen.size, await simulation.openBooks()]).toEqual([[], 0, []])
  })

  test('waits for the disk only for kinds that only the ledger can find after a power cut', async () => {
    const intend = vi.spyOn(simulation.store, 'intend')
    await run(life.engine.launch(life.engine.openScope({ id: 'found', kind: 'agent' }), [thing('a')]))
    await run(life.engine.launch(life.engine.openScope({ id: 'lost', kind: 'agent' }), [thing('a'), thing('b', { kind: unlistedKind })]))
    expect(intend.mock.calls.map(([scopeId, , survives]) => [scopeId, survives])).toEqual([
      ['found', 'crash'],
      ['lost', 'power-cut'],
    ])
    expect([FileKind, DirectoryKind, FolderKind].map((Kind) => new Kind(realEffects).outlivesPower)).toEqual([true, true, true])
  })

  test('is refused in a closing scope, and so is a new scope below it (G13)', async () => {
    const scope = life.engine.openScope({ id: 'request', kind: 'request' })
    await run(life.engine.launch(scope, [thing('a', { hears: 'kill' })]))
    const closed = life.engine.close('request', { trigger: 'request-finished' })
    expect(() => life.engine.openScope({ id: 'agent', kind: 'agent', parentId: 'request' })).toThrow(/accepts nothing/)
    await expect(run(life.engine.acquire(scope, [thing('b')]))).rejects.toMatchObject({ code: 'scope_closed' })
    expect(await run(closed)).toMatchObject({ success: true, resources: [{ name: 'request.1' }] })
  })

  test('openScope refuses an id that is taken, and the first scope keeps its resources', async () => {
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
    await run(life.engine.launch(scope, [thing('a')]))
    expect(() => life.engine.openScope({ id: 'agent', kind: 'agent' })).toThrow(/exists already/)
    expect(await run(life.engine.close('agent', { trigger: 'completed' }))).toMatchObject({
      resources: [{ name: 'agent.1', outcome: 'released' }],
    })
  })
})

describe('openScope and launch', () => {
  const pauses = {
    nothing: () => undefined,
    'a microtask': () => Promise.resolve(),
    'a turn of the event loop': nextTurn,
    'a second': () => run(simulation.clock.pause(1_000)),
  }

  test.each(Object.entries(pauses))('are one transaction with %s awaited between them', async (_name, between) => {
    const transactions = vi.spyOn(DatabaseSync.prototype, 'exec')
    const begun = (): number => transactions.mock.calls.filter(([sql]) => sql.startsWith('BEGIN')).length
    let beforeCreation: number | undefined
    vi.spyOn(simulation.store, 'hold').mockImplementationOnce(async () => {
      beforeCreation = begun()
    })
    const namespace = life.engine.openScope({ id: 'namespace', kind: 'namespace' })
    await between()
    const request = life.engine.openScope({ id: 'request', kind: 'request', parentId: namespace.id })
    await between()
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent', parentId: request.id })
    await between()
    await run(life.engine.launch(scope, [thing('a')]))
    expect(beforeCreation).toBe(1)
    transactions.mockRestore()
    expect(await simulation.openBooks()).toEqual([
      'agent.1 intended',
      ...['host-life1', 'namespace', 'request', 'agent'].map((id) => `scope ${id} open`),
    ])
    await run(life.engine.close('namespace', { trigger: 'request-finished', force: true }))
  })

  test('a scope that nothing was launched into is in no ledger, and its close is clean', async () => {
    life.engine.openScope({ id: 'request', kind: 'request' })
    expect(await run(life.engine.close('request', { trigger: 'request-finished' }))).toMatchObject({ success: true, resources: [] })
    expect([life.engine.owns('request'), await simulation.openBooks()]).toEqual([false, []])
  })

  test('launches at once bring the same new scope, and one that is refused does not take it from the others', async () => {
    const request = life.engine.openScope({ id: 'request', kind: 'request' })
    const scopes = ['a', 'b', 'c'].map((id) => life.engine.openScope({ id, kind: 'agent', parentId: request.id }))
    life.faults.next('ledger.intend', ['refused', 'well', 'slow'], 1_000)
    const launched = await run(Promise.allSettled(scopes.map((scope) => life.engine.launch(scope, [thing('it')]))))
    expect(launched.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled'])
    expect(simulation.world.left()).toEqual(['listed b.1', 'listed c.1'])
    await run(life.engine.close('request', { trigger: 'request-finished' }))
  })

  test('a scope that closes between opening and launching accepts nothing, and nothing of it is written (G13)', async () => {
    const request = life.engine.openScope({ id: 'request', kind: 'request' })
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent', parentId: request.id })
    await nextTurn()
    const closed = life.engine.close('request', { trigger: 'request-finished' })
    await expect(run(life.engine.launch(scope, [thing('a')]))).rejects.toMatchObject({ code: 'scope_closed' })
    expect(await run(closed)).toMatchObject({ success: true })
    expect([simulation.world.left(), await simulation.openBooks()]).toEqual([[], []])
  })

  test('a parent that another process closes refuses in the transaction, which then has written nothing (G13)', async () => {
    const request = life.engine.openScope({ id: 'request', kind: 'request' })
    await run(life.engine.record(request))
    await run(simulation.store.beginClose('request', { trigger: 'request-finished' }))
    const row = { type: 't', placement: 'process', namespace: 'one', prompt: '', configuration: {}, incarnation: life.id }
    const agent = simulation.agents.newAgent(
      { ...row, id: 'agent', createdAt: simulation.clock.wall() },
      { id: 'm', type: 'user', content: '' },
    )
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent', parentId: request.id })
    await expect(run(life.engine.launch(scope, [thing('a')], [agent]))).rejects.toMatchObject({ code: 'scope_closed' })
    expect([simulation.world.left(), await simulation.openBooks()]).toEqual([[], ['scope host-life1 open', 'scope request closing']])
    expect((await run(simulation.agents.list({}))).agents).toEqual([])
  })
})

describe('close during a launch', () => {
  test('waits for the running creation, releases its resource, and creates nothing more', async () => {
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
    life.faults.next('create', ['slow', 'well'], 4_000)
    const launched = life.engine.launch(scope, [thing('a'), thing('b')])
    launched.catch(() => {})
    await run(simulation.clock.pause(1_000))
    const report = await run(life.engine.close('agent', { trigger: 'terminated' }))
    await expect(run(launched)).rejects.toMatchObject({ code: 'scope_closed' })
    expect(report).toMatchObject({ success: true, duration: 3_000 })
    expect(simulation.world.left()).toEqual([])
  })

  test('keeps its request when the launch fails because of it: the log is archived', async () => {
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
    life.faults.next('create', ['slow'], 1_000)
    const launched = life.engine.launch(scope, [thing('log', { owes: ['archive'] }), thing('b')])
    launched.catch(() => {})
    await run(simulation.clock.pause(10))
    await run(life.engine.close('agent', { trigger: 'terminated' }))
    await run(launched.catch(() => {}))
    expect([...simulation.world.archive]).toEqual(['archive of agent.1'])
  })

  test.each([listedKind, unlistedKind])('does not call a %s resource released while its creation is running', async (kind) => {
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
    life.faults.next('create', ['slow'], 50_000)
    const launched = life.engine.launch(scope, [thing('late', { kind })])
    await expect(run(launched)).rejects.toThrow(/took too long/)
    expect(life.reports).toMatchObject([
      { success: false, resources: [{ outcome: 'stuck', error: expect.stringContaining('may still appear') }] },
    ])
    expect(await simulation.openBooks()).toContain('agent.1 stuck')

    await run(simulation.clock.pause(60_000))
    expect(simulation.world.left()).toEqual([`${kind} agent.1`])
    await simulation.pass(life.reaper)
    expect([simulation.world.left(), await simulation.openBooks()]).toEqual([[], ['scope host-life1 open']])
  })

  test('a close of the parent scope is no success while a creation below is running', async () => {
    const request = life.engine.openScope({ id: 'request', kind: 'request' })
    const agent = life.engine.openScope({ id: 'agent', kind: 'agent', parentId: request.id })
    life.faults.next('create', ['slow'], 25_000)
    life.engine.launch(agent, [thing('late', { kind: unlistedKind })]).catch(() => {})
    await run(simulation.clock.pause(10))
    expect(await run(life.engine.close('request', { trigger: 'request-finished' }))).toMatchObject({ success: false })
    await run(simulation.clock.pause(20_000))
    expect(await run(life.engine.close('request', { trigger: 'request-finished' }))).toMatchObject({ success: true })
    expect(simulation.world.left()).toEqual([])
  })

  test('a close of the parent scope is no success while intents below are being written', async () => {
    const request = life.engine.openScope({ id: 'request', kind: 'request' })
    const agent = life.engine.openScope({ id: 'agent', kind: 'agent', parentId: request.id })
    life.faults.next('ledger.intend', ['slow'], 25_000)
    life.engine.launch(agent, [thing('late')]).catch(() => {})
    await run(simulation.clock.pause(10))
    expect(await run(life.engine.close('request', { trigger: 'request-finished' }))).toMatchObject({ success: false })
  })
})
