import { type ChildProcess, spawn } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import type { Leftover } from '../../src/doctor/judgement/leftover.ts'
import type { Leftovers } from '../../src/doctor/leftovers-port.ts'
import { openLeftovers } from '../../src/doctor/search/leftovers.ts'
import { realClock } from '../../src/host/clock.ts'
import { realEffects } from '../../src/host/effects.ts'
import { isMarked, seen, waitUntil } from '../support/world.ts'
import { named } from './support/named.ts'
import { agentTypes, needsAgent, programs } from './support/programs.ts'
import { openScene, prompt, type Scene, stands } from './support/scene.ts'
import { processesOf } from './support/sight.ts'

/** Real agents that Ebb did not start and whose supervisor or agent was killed by SIGKILL. The doctor finds what they leave and ends it. */

function start(scene: Scene): ChildProcess {
  const shell = `true; bash -c "bash -c 'exec -a ${scene.name('tool')} sleep 600'; :"; :`
  scene.model.follow({ rules: [{ turns: [{ shell }] }], otherwise: 'That was everything.' })
  const env = Object.fromEntries(
    Object.entries({ ...process.env, ...scene.ebbEnv, ...scene.env }).filter(([, value]) => value !== undefined),
  )
  // The parent of the agent is a shell that leads a session of its own. The shell exits when the agent has ended.
  const child = spawn('sh', ['-c', '"$@"; :', 'sh', ...programs[scene.type].words(prompt)], {
    cwd: scene.work,
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  child.stdout?.resume()
  child.stderr?.resume()
  return child
}

function doctor(scene: Scene): Leftovers {
  const isOurs = (pid: number): boolean => {
    const found = seen(pid)
    return found !== undefined && isMarked(found, scene.name(''))
  }
  const environment = { PATH: process.env.PATH ?? '', HOME: scene.agentHome, TMUX_TMPDIR: scene.temp }
  return openLeftovers({ clock: realClock, effects: realEffects, cwd: '/', temp: scene.temp, environment, only: isOurs })
}

async function hangUp(child: ChildProcess): Promise<void> {
  // The streams of a dead agent may have closed already.
  const streams = [child.stdout, child.stderr].flatMap((stream) => (stream === null || stream.closed ? [] : stream))
  const closed = streams.map((stream) => new Promise((resolve) => stream.once('close', resolve)))
  for (const stream of streams) stream.destroy()
  await Promise.all(closed)
}

/** Kills a process. The process may have ended together with another one. */
function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

const isProcess = ({ kind }: Leftover): boolean => kind === 'agent' || kind === 'tool'

async function requireEnded(scene: Scene): Promise<readonly Leftover[]> {
  // A process with many threads takes time to die. Its children are adopted only after that.
  await waitUntil(() => processesOf(scene).filter(({ ppid }) => !seen(ppid)), 10_000, 'orphans are adopted')
  const leftovers = doctor(scene)
  let shown: readonly Leftover[] = []
  // An agent that notices the lost connection may be exiting. The processes that it leaves are leftovers only when the agent is gone.
  const isFound = async (): Promise<boolean> => {
    shown = (await leftovers.find()).leftovers
    const covered = new Set(
      shown.filter((leftover) => isProcess(leftover) && leftover.fixes).flatMap(({ processes }) => processes.map(({ pid }) => pid)),
    )
    return named(scene.name('tool')).every(({ pid }) => covered.has(pid))
  }
  await waitUntil(isFound, 10_000, 'the tool is found as a leftover, or gone')
  for (const { outcome, says } of await leftovers.end(shown)) expect([says, outcome]).not.toContain('left')
  await waitUntil(() => processesOf(scene), 10_000, 'nothing of it is left')
  return shown
}

for (const type of agentTypes) {
  describe(`doctor: leftovers of ${type}`, () => {
    needsAgent(type)

    it('finds an agent whose supervisor was killed and its tool, and ends both', async () => {
      await using scene = await openScene(type)
      const child = start(scene)
      await stands(scene, ['tool'])
      process.kill(child.pid ?? 0, 'SIGKILL')
      await hangUp(child)
      const shown = await requireEnded(scene)
      if (type === 'claude-code') expect(shown.some(({ kind, fixes }) => kind === 'agent' && fixes)).toBe(true)
    })

    it('finds a tool whose agent was killed, and ends it', async () => {
      await using scene = await openScene(type)
      const child = start(scene)
      await stands(scene, ['tool'])
      const others = processesOf(scene).filter(({ pid }) => pid !== child.pid)
      const agents = others.filter(
        ({ argv, command }) =>
          /claude|codex|gemini|opencode/.test(`${command} ${argv.split('\0').slice(0, 3).join(' ')}`) && !/^(bash|sh)$/.test(command),
      )
      expect(agents.length).toBeGreaterThan(0)
      for (const { pid } of agents) kill(pid)
      await waitUntil(() => agents.filter(({ pid, startTime }) => seen(pid)?.startTime === startTime), 10_000, 'the agent is dead')
      await hangUp(child)
      if (named(scene.name('tool')).length > 0) await requireEnded(scene)
      await waitUntil(() => processesOf(scene), 10_000, 'nothing of it is left')
    })
  })
}
