import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { forgets } from '../../../../src/core/model/close-request.ts'
import type { Report } from '../../../../src/core/model/report.ts'
import { closeRequests, commands, decks, Player, plans } from '../../../support/random-lives.ts'
import { type Life, listedKind, reaperIntervalMs, Simulation, thing, unlistedKind } from '../../../support/simulation.ts'

/**
 * The engine on a simulated system: random scope trees, plans, failures, lost answers, unknowns and interleavings. The simulated system
 * records every violation of a guarantee. The tests check the final state.
 */

const runs = { numRuns: Number(process.env.EBB_PROPERTY_RUNS ?? 150) }
const timeout = 120_000

/** Ends all faults. Then runs passes of the reaper and shutdowns in turn, an hour apart, until everything is closed. */
async function closeEverything(simulation: Simulation, life: Life): Promise<void> {
  const { clock } = simulation
  life.faults.isCalm = true
  for (let hour = 0; hour < 10; hour++) {
    await simulation.pass(life.reaper)
    const { success, errors } = await clock.run(life.engine.shutDown())
    if (success && errors.length === 0) return
    await clock.run(clock.pause(64 * reaperIntervalMs))
  }
}

async function expectClean(simulation: Simulation): Promise<void> {
  expect({ violations: simulation.world.violations, left: simulation.world.left(), contents: await simulation.openBooks() }).toEqual({
    violations: [],
    left: [],
    contents: [],
  })
}

describe('property: faults in one supervisor', () => {
  test('nothing is left once the faults are over, and no guarantee was broken', { timeout }, async () => {
    await fc.assert(
      fc.asyncProperty(commands, decks, async (all, deck) => {
        await using simulation = await Simulation.open()
        const life = simulation.live({ deck })
        const player = new Player(simulation, life)
        await player.play(all)
        await simulation.clock.run(Promise.allSettled(player.pending))
        await closeEverything(simulation, life)
        await expectClean(simulation)
        const named = life.reports.flatMap(({ gaveUp }) => gaveUp).join('\n')
        for (const id of simulation.world.lost) expect(named, 'G8: the report names what was given up').toContain(id)
      }),
      runs,
    )
  })
})

describe('property: sequences of closes', () => {
  const sequences = fc.array(fc.record({ closeRequest: closeRequests, afterMs: fc.nat(3_000) }), { minLength: 2, maxLength: 6 })

  test('any number of closes, concurrent or in a row, is one close (G5, G6)', { timeout }, async () => {
    await fc.assert(
      fc.asyncProperty(plans, sequences, async (plan, closes) => {
        await using simulation = await Simulation.open()
        const { clock, world } = simulation
        const { engine, reports } = simulation.live()
        await clock.run(engine.launch(engine.openScope({ id: 'agent', kind: 'agent' }), plan))
        const asked: Promise<Report>[] = []
        for (const { closeRequest, afterMs } of closes) {
          const operation = engine.parts.operations.get('agent')
          const report = engine.close('agent', closeRequest)
          if (operation) expect(report).toBe(asked.at(-1))
          // The running close is at least as strong as each request that joined it: force and deletion are never lost.
          if (operation && closeRequest.force) expect(operation.policy).toMatchObject({ givesUp: true, firstStep: 'kill' })
          if (operation && forgets(closeRequest)) expect(operation.policy.keepsLogs).toBe(false)
          asked.push(report)
          await clock.run(clock.pause(afterMs))
        }
        const answers = await clock.run(Promise.all(asked))
        const isClean = answers.at(-1)?.success === true
        const { length } = world.releases
        if (isClean)
          expect(await clock.run(engine.close('agent', { trigger: 'deleted', force: true }))).toMatchObject({
            success: true,
            resources: [],
          })
        if (isClean) expect([world.left(), world.releases.length]).toEqual([[], length])
        expect(reports.filter(({ success }) => success).length).toBeLessThanOrEqual(1)
        expect(world.violations).toEqual([])
      }),
      runs,
    )
  })
})

describe('property: supervisors that die at any moment', () => {
  const lives = fc.array(fc.record({ all: commands, deck: decks, recovers: fc.boolean(), lastMs: fc.nat(20_000) }), {
    minLength: 1,
    maxLength: 3,
  })

  test('the next supervisor cleans up, and another living one keeps its resources (G9)', { timeout }, async () => {
    await fc.assert(
      fc.asyncProperty(lives, async (generations) => {
        await using simulation = await Simulation.open()
        const { clock, world } = simulation
        const neighbour = simulation.live()
        const scope = neighbour.engine.openScope({ id: 'next-door', kind: 'agent' })
        await clock.run(neighbour.engine.launch(scope, [thing('theirs', { kind: listedKind }), thing('more', { kind: unlistedKind })]))
        const theirs = world.left()

        for (const { all, deck, recovers, lastMs } of generations) {
          const life = simulation.live({ deck, creationsComeBack: false })
          if (recovers) life.engine.recover().catch(() => {})
          await new Player(simulation, life).play(all)
          await clock.run(clock.pause(lastMs))
          life.die()
        }

        const last = simulation.live()
        await clock.run(last.engine.begin())
        await clock.run(last.engine.recover())
        await closeEverything(simulation, last)
        expect(world.left(), 'the resources of the living supervisor').toEqual(theirs)
        await closeEverything(simulation, neighbour)
        await expectClean(simulation)
      }),
      runs,
    )
  })
})
