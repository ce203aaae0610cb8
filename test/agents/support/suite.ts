import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { needs } from '../../support/real.ts'
import { waitUntil } from '../../support/world.ts'
import { needsDocker } from './container.ts'
import { type AgentType, agentTypes, needsAgent } from './programs.ts'
import { hardest, plainAnswer, type Scenario, scenarios } from './scenarios.ts'
import { openScene, type Placement, type Scene } from './scene.ts'
import { Stage } from './stage.ts'
import { requireAllOf, requireWholeTranscript } from './transcript.ts'
import { force, killOfRunner, killOfSupervisor, stop, supervisorWays, type Way, ways } from './ways.ts'

/**
 * Each scenario is combined with one way to stop, in turns, so that all agents and placements together cover every pair. The hardest
 * scenario is combined with every way. At a runner and in a container the programs are the same and only the transport differs, so there
 * only a plain answer and the hardest scenario are tested. EBB_AGENTS_FULL=1 combines every scenario with every way.
 */
const isFull = process.env.EBB_AGENTS_FULL === '1'

const near: readonly Placement[] = ['process', 'tmux']

function waysIn(placement: Placement): readonly Way[] {
  if (placement === 'remote') return isFull ? [...ways, ...supervisorWays, killOfRunner] : [stop, killOfSupervisor, killOfRunner]
  if (placement === 'docker' && !isFull) return [stop, force, killOfSupervisor]
  return [...ways, ...supervisorWays]
}

export function itLeavesNothing(type: AgentType, placement: Placement): void {
  describe(`${type} in ${placement}`, () => {
    needsAgent(type)
    if (placement === 'tmux') needs('tmux')
    const daemon = placement === 'docker' ? needsDocker() : undefined
    const open = (scene: Scene): Promise<Stage> => Stage.open(scene, placement, daemon?.())
    const played = isFull || near.includes(placement) ? scenarios : [plainAnswer]
    for (const scenario of played.filter(({ ready }) => !ready))
      it(`${scenario.what} leaves nothing`, () => endsByItself(type, scenario, open))
    const stopped = played.filter(({ ready }) => ready)
    for (const [index, scenario] of stopped.entries())
      for (const way of isFull ? allFor(scenario, placement) : [inTurn(type, placement, index)])
        it(`${scenario.what} leaves nothing after ${way.what}`, () => isStopped(type, scenario, way, open))
    for (const way of waysIn(placement)) it(`${way.what} leaves nothing of ${hardest.what}`, () => isStopped(type, hardest, way, open))
  })
}

/**
 * An agent that may end by itself may have ended before the next supervisor starts, so it is not combined with the loss of a supervisor.
 */
function allFor({ mayEnd }: Scenario, placement: Placement): readonly Way[] {
  return mayEnd === undefined ? waysIn(placement) : ways
}

function inTurn(type: AgentType, placement: Placement, index: number): Way {
  const turn = index + agentTypes.indexOf(type) * near.length + near.indexOf(placement)
  return ways[turn % ways.length] as Way
}

type Open = (scene: Scene) => Promise<Stage>

async function endsByItself(type: AgentType, scenario: Scenario, open: Open): Promise<void> {
  await using scene = await openScene(type)
  await using stage = await open(scene)
  scene.model.follow(scenario.script(scene, stage.placement))
  await stage.launch(scenario.hasMcp === true)
  const status = await stage.finalStatus()
  stage.requireNothing()
  expect(status, await stage.lastMessages()).toBe('completed')
  scenario.check?.(await requireWholeTranscript(stage.server, stage.id), scene)
  requireAllHere(stage)
  await requireSilence(stage, await requestCount(stage))
  await stage.forgottenByRunner()
}

async function isStopped(type: AgentType, scenario: Scenario, way: Way, open: Open): Promise<void> {
  await using scene = await openScene(type)
  await using stage = await open(scene)
  scene.model.follow(scenario.script(scene, stage.placement))
  await stage.launch(scenario.hasMcp === true)
  const ended = stage.finalStatus()
  ended.catch(() => {}) // `Promise.race` below handles an early failure of `ended`.
  const early = await Promise.race([ended, scenario.ready?.(scene).then(() => undefined)])
  if (early !== scenario.mayEnd) expect(early, await stage.lastMessages().catch(String)).toBeUndefined()
  const arrived = way.isAbrupt ? await stage.arrived() : undefined
  await way.stop(stage)
  stage.requireNothing()
  const requests = await requestCount(stage)
  await requireEnd(stage, way, early ?? (await ownEnd(stage, scenario, way)))
  if (way.end) requireAllHere(stage, arrived)
  await requireSilence(stage, requests)
  await stage.forgottenByRunner()
}

async function requireEnd(stage: Stage, way: Way, early: string | undefined): Promise<void> {
  const { server, scene, path, id } = stage
  if (!way.end) {
    expect((await server.call('GET', path)).status).toBe(404)
    expect(existsSync(join(scene.home, 'archive', id))).toBe(false)
    return
  }
  expect(await server.get(path)).toMatchObject(early === undefined ? way.end(stage) : { status: early })
  await requireWholeTranscript(server, id)
}

/** The status of an agent that ended by itself while it was being stopped. Its close then has the trigger `completed`. */
async function ownEnd({ server, path }: Stage, { mayEnd }: Scenario, { end }: Way): Promise<string | undefined> {
  if (mayEnd === undefined || !end) return undefined
  const { trigger } = await server.post(`${path}/stop`, {})
  return trigger === 'completed' ? mayEnd : undefined
}

/** Requires that everything that an agent wrote at its runner is in the server's archive. Does nothing without a runner. */
function requireAllHere(stage: Stage, arrived?: string): void {
  const written = stage.written()
  if (written !== undefined) requireAllOf(written, stage.scene.home, stage.id, arrived)
}

/** The number of requests at the model. First waits until all connections have ended, so that the last requests are counted. */
async function requestCount({ scene: { model } }: Stage): Promise<number> {
  await waitUntil(() => connectionsAt(Number(new URL(model.url).port)), 10_000, 'the model has read all requests')
  return model.requests.length
}

/** Connections in `/proc/net/tcp` (proc(5)), without those in LISTEN (0A) and TIME_WAIT (06). */
function connectionsAt(port: number): readonly string[] {
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  return readFileSync('/proc/self/net/tcp', 'latin1')
    .split('\n')
    .filter((line) => {
      const [, own = '', , state = ''] = line.trim().split(/\s+/)
      return own.endsWith(local) && state !== '0A' && state !== '06'
    })
}

/** Requires that no process sends further requests to the model or reads an answer. */
async function requireSilence({ scene }: Stage, requests: number): Promise<void> {
  const { model } = scene
  await waitUntil(
    () => model.requests.filter(({ state }) => state === 'open').map(({ api, turn }) => `${api} ${turn}`),
    5_000,
    'no connection to the model is open',
  )
  expect(model.requests.length).toBe(requests)
}
