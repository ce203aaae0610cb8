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
 * Each scenario with a way to stop that takes turns, so that over all agents and placements every pair is seen, and each way
 * with the hardest scenario. At a runner and in a container the programs are the same, and what is between them and us is not:
 * there a plain answer, and the hardest scenario with the ways that end in that. With EBB_AGENTS_FULL=1, every scenario with
 * every way.
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

/** One that may end by itself has perhaps done so when the next supervisor comes. */
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
  const status = await stage.over()
  stage.requireNothing()
  expect(status, await stage.lastWords()).toBe('completed')
  scenario.said?.(await requireWholeTranscript(stage.server, stage.id), scene)
  requireAllHere(stage)
  await requireSilence(stage, await heard(stage))
  await stage.forgottenByRunner()
}

async function isStopped(type: AgentType, scenario: Scenario, way: Way, open: Open): Promise<void> {
  await using scene = await openScene(type)
  await using stage = await open(scene)
  scene.model.follow(scenario.script(scene, stage.placement))
  await stage.launch(scenario.hasMcp === true)
  const ended = stage.over()
  ended.catch(() => {}) // Whoever stops it first is not told.
  const early = await Promise.race([ended, scenario.ready?.(scene).then(() => undefined)])
  if (early !== scenario.mayEnd) expect(early, await stage.lastWords().catch(String)).toBeUndefined()
  const arrived = way.isAbrupt ? await stage.arrived() : undefined
  await way.stop(stage)
  stage.requireNothing()
  const requests = await heard(stage)
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

/** One that may end by itself may have done so while it was being stopped: then the close was not ours, and its report says so. */
async function ownEnd({ server, path }: Stage, { mayEnd }: Scenario, { end }: Way): Promise<string | undefined> {
  if (mayEnd === undefined || !end) return undefined
  const { trigger } = await server.post(`${path}/stop`, {})
  return trigger === 'completed' ? mayEnd : undefined
}

/** Of one that ran at a runner. */
function requireAllHere(stage: Stage, arrived?: string): void {
  const written = stage.written()
  if (written !== undefined) requireAllOf(written, stage.scene.home, stage.id, arrived)
}

/** Everything that was asked of the model by those who are gone: what they sent last is read when their connections have ended. */
async function heard({ scene: { model } }: Stage): Promise<number> {
  await waitUntil(() => connectionsAt(Number(new URL(model.url).port)), 10_000, 'what was sent to the model is read')
  return model.requests.length
}

/** Of proc(5), `/proc/net/tcp`: neither the one that listens (0A) nor those that are over (06). */
function connectionsAt(port: number): readonly string[] {
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  return readFileSync('/proc/self/net/tcp', 'latin1')
    .split('\n')
    .filter((line) => {
      const [, own = '', , state = ''] = line.trim().split(/\s+/)
      return own.endsWith(local) && state !== '0A' && state !== '06'
    })
}

/** Nobody who outlived the agent asks for more, and nobody listens any more. */
async function requireSilence({ scene }: Stage, requests: number): Promise<void> {
  const { model } = scene
  await waitUntil(
    () => model.requests.filter(({ state }) => state === 'open').map(({ api, turn }) => `${api} ${turn}`),
    5_000,
    'nobody listens',
  )
  expect(model.requests.length).toBe(requests)
}
