import { describe, expect, it } from 'vitest'
import { type Ended, type RunningEbb, startEbb } from '../support/home.ts'
import { waitUntil } from '../support/world.ts'
import { agentTypes, needsAgent, programs } from './support/programs.ts'
import { hardest, type Scenario, scenarios } from './support/scenarios.ts'
import { mcpServers, openScene, prompt, type Scene } from './support/scene.ts'
import { leftOf, requireNothing } from './support/sight.ts'

/** `ebb exec` around a real agent, as a user runs it: without a server and without a provider. */

interface Ending {
  readonly what: string
  readonly flags?: readonly string[]
  /** Resolves when the agent has reached the state in which the test ends it with `end`. */
  until(run: RunningEbb, scene: Scene): Promise<unknown>
  end(run: RunningEbb): void
  /** The exit code of `ebb exec`. Undefined where `ebb exec` passes the exit code of the agent through. */
  readonly code?: number | null
}

const noProcesses = new Set<string>()
async function whenItStands(run: RunningEbb, scene: Scene): Promise<void> {
  const early = await Promise.race([run.ended, hardest.ready?.(scene).then(() => undefined)])
  if (early) throw new Error(`The run ended before it was stopped: ${said(early)}`)
}

const signalled = (signal: NodeJS.Signals) => (run: RunningEbb) => run.signal(signal)

const endings: readonly Ending[] = [
  { what: 'SIGTERM', until: whenItStands, end: signalled('SIGTERM') },
  { what: 'SIGINT', until: whenItStands, end: signalled('SIGINT') },
  // The sentinel of the killed `ebb` cleans up.
  { what: 'SIGKILL of ebb itself', until: whenItStands, end: signalled('SIGKILL'), code: null },
  // The time limit is long enough for the whole process tree to start. The test does not require that the tree is complete.
  { what: 'its time limit', flags: ['--timeout', '12s'], until: (run) => run.ended, end: () => {}, code: 124 },
]

function start(scene: Scene, { hasMcp }: Scenario, flags: readonly string[] = []): RunningEbb {
  const { words, configureMcp } = programs[scene.type]
  const more = hasMcp ? configureMcp(scene.agentHome, mcpServers(scene)) : []
  return startEbb(['exec', ...flags, '--', ...words(prompt), ...more], {
    home: scene.home,
    cwd: scene.work,
    env: { ...scene.ebbEnv, ...scene.env },
    input: '',
    deadlineMs: 240_000,
  })
}

async function stopped(scene: Scene, { flags, until, end, code }: Ending): Promise<void> {
  scene.model.follow(hardest.script(scene, 'process'))
  const run = start(scene, hardest, flags)
  await until(run, scene)
  end(run)
  const ended = await run.ended
  if (code !== undefined) expect(ended.code, said(ended)).toBe(code)
  if (ended.signal === 'SIGKILL') await waitUntil(() => leftOf(scene, noProcesses), 15_000, 'the sentinel has ended everything')
  requireNothing(leftOf(scene, noProcesses))
}

function said({ code, stdout, stderr }: Ended): string {
  return `code ${code}\n${stdout.toString('utf8').slice(-2_000)}\n${stderr.slice(-2_000)}`
}

for (const type of agentTypes) {
  describe(`ebb exec around ${type}`, () => {
    needsAgent(type)
    for (const scenario of scenarios.filter(({ ready }) => !ready)) {
      it(`${scenario.what} leaves nothing`, async () => {
        await using scene = await openScene(type)
        scene.model.follow(scenario.script(scene, 'process'))
        const ended = await start(scene, scenario).ended
        requireNothing(leftOf(scene, noProcesses))
        expect(ended.code, said(ended)).toBe(0)
      })
    }
    for (const ending of endings) {
      it(`${ending.what} leaves nothing of ${hardest.what}`, async () => {
        await using scene = await openScene(type)
        await stopped(scene, ending)
      })
    }
  })
}
