import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { realEffects } from '../../../../src/host/effects.ts'
import { FolderKind } from '../../../../src/kinds/file/folder.ts'
import { DirectoryKind, FileKind } from '../../../../src/kinds/file/kind.ts'
import type { Fate } from '../../../support/faults.ts'
import { type Life, Simulation, thing, unlistedKind } from '../../../support/simulation.ts'

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

describe('a launch', () => {
  test('that fails half-way is rolled back: what was made is gone, and so is its record', async () => {
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
    life.faults.next('create', ['well', 'well', 'refused'])
    const launched = life.engine.launch(scope, [thing('a'), thing('b', { dependsOn: ['a'] }), thing('c')])
    await expect(run(launched)).rejects.toMatchObject({ code: 'launch_failed', message: expect.stringContaining('create was refused') })
    expect(simulation.world.left()).toEqual([])
    expect((await run(simulation.store.contents())).scopes.map(({ id }) => id)).toEqual(['host-life1'])
    expect(life.reports).toMatchObject([{ success: true, trigger: 'launch-rollback' }])
  })

  test('whose creation answered with an error though it was made is rolled back too', async () => {
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
    life.faults.next('create', ['lost'])
    await expect(run(life.engine.launch(scope, [thing('a')]))).rejects.toMatchObject({ code: 'launch_failed' })
    expect(simulation.world.left()).toEqual([])
  })

  test.each<Fate>(['refused', 'lost'])('whose intents were %s by the ledger makes nothing and leaves no intent', async (fate) => {
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
    life.faults.next('ledger.intend', [fate])
    await expect(run(life.engine.launch(scope, [thing('a')]))).rejects.toThrow(/ledger.intend/)
    expect([simulation.world.left(), await simulation.openBooks()]).toEqual([[], ['scope host-life1 open']])
  })

  test('of a supervisor that could not register makes nothing, because no recovery would find it', async () => {
    life.faults.next('ledger.register', ['refused'])
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
    await expect(run(life.engine.launch(scope, [thing('a')]))).rejects.toThrow()
    expect([simulation.world.left(), simulation.world.lastSeen.size, await simulation.openBooks()]).toEqual([[], 0, []])
  })

  test('waits for the disk where only the ledger would know of it after a power cut, and only there', async () => {
    const intend = vi.spyOn(simulation.store, 'intend')
    await run(life.engine.launch(life.engine.openScope({ id: 'found', kind: 'agent' }), [thing('a')]))
    await run(life.engine.launch(life.engine.openScope({ id: 'lost', kind: 'agent' }), [thing('a'), thing('b', { kind: unlistedKind })]))
    expect(intend.mock.calls.map(([scopeId, , survives]) => [scopeId, survives])).toEqual([
      ['found', 'crash'],
      ['lost', 'power-cut'],
    ])
    expect([FileKind, DirectoryKind, FolderKind].map((Kind) => new Kind(realEffects).outlivesPower)).toEqual([true, true, true])
  })

  test('into a scope that is closing is refused, and so is a scope below it (G13)', async () => {
    const scope = life.engine.openScope({ id: 'request', kind: 'request' })
    await run(life.engine.launch(scope, [thing('a', { hears: 'kill' })]))
    const closed = life.engine.close('request', { trigger: 'request-finished' })
    expect(() => life.engine.openScope({ id: 'agent', kind: 'agent', parentId: 'request' })).toThrow(/accepts nothing/)
    await expect(run(life.engine.acquire(scope, [thing('b')]))).rejects.toMatchObject({ code: 'scope_closed' })
    expect(await run(closed)).toMatchObject({ success: true, resources: [{ name: 'request.1' }] })
  })

  test('of a scope whose id is taken is refused, and the first keeps what it has', async () => {
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
    await run(life.engine.launch(scope, [thing('a')]))
    expect(() => life.engine.openScope({ id: 'agent', kind: 'agent' })).toThrow(/exists already/)
    expect(await run(life.engine.close('agent', { trigger: 'completed' }))).toMatchObject({
      resources: [{ name: 'agent.1', outcome: 'released' }],
    })
  })
})

describe('a close during a launch', () => {
  test('waits for what is being made, takes it away, and makes nothing more', async () => {
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

  test('is not turned into a deletion by the launch that fails because of it', async () => {
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
    life.faults.next('create', ['slow'], 1_000)
    const launched = life.engine.launch(scope, [thing('log', { owes: ['archive'] }), thing('b')])
    launched.catch(() => {})
    await run(simulation.clock.pause(10))
    await run(life.engine.close('agent', { trigger: 'terminated' }))
    await run(launched.catch(() => {}))
    expect([...simulation.world.archive]).toEqual(['archive of agent.1'])
  })

  test.each(['listed', 'unlisted'])('does not call a %s thing released whose creation has not come back', async (kind) => {
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

  test('of a scope above is no success while a creation below has not come back', async () => {
    const request = life.engine.openScope({ id: 'request', kind: 'request' })
    const agent = life.engine.openScope({ id: 'agent', kind: 'agent', parentId: request.id })
    life.faults.next('create', ['slow'], 25_000)
    life.engine.launch(agent, [thing('late', { kind: 'unlisted' })]).catch(() => {})
    await run(simulation.clock.pause(10))
    expect(await run(life.engine.close('request', { trigger: 'request-finished' }))).toMatchObject({ success: false })
    await run(simulation.clock.pause(20_000))
    expect(await run(life.engine.close('request', { trigger: 'request-finished' }))).toMatchObject({ success: true })
    expect(simulation.world.left()).toEqual([])
  })

  test('of a scope above is no success while a plan below is still on its way into the ledger', async () => {
    const request = life.engine.openScope({ id: 'request', kind: 'request' })
    const agent = life.engine.openScope({ id: 'agent', kind: 'agent', parentId: request.id })
    life.faults.next('ledger.intend', ['slow'], 25_000)
    life.engine.launch(agent, [thing('late')]).catch(() => {})
    await run(simulation.clock.pause(10))
    expect(await run(life.engine.close('request', { trigger: 'request-finished' }))).toMatchObject({ success: false })
  })
})
