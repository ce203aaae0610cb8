import { expect } from 'vitest'
import type { Json } from '../../support/server.ts'
import { waitUntil } from '../../support/world.ts'
import { requestOf } from './scene.ts'
import { processesLeft } from './sight.ts'
import type { Stage } from './stage.ts'

/** A way to stop an agent, and what is in the books of it afterwards. */
export interface Way {
  readonly what: string
  /** When it settles there is nothing left, and a server to ask. */
  stop(stage: Stage): Promise<void>
  /** It ends the connection to a runner, too: what comes after that is lost. */
  readonly isAbrupt?: true
  /** None of one that is forgotten. */
  readonly end?: (stage: Stage) => object
}

async function requireReport(answer: Promise<Json>): Promise<void> {
  expect(await answer).toMatchObject({ success: true, errors: [], gaveUp: [] })
}

const terminated = (): object => ({ status: 'terminated' })

export const stop: Way = {
  what: 'a stop',
  stop: ({ server, path }) => requireReport(server.post(`${path}/stop`, {})),
  end: terminated,
}

export const force: Way = {
  what: 'force',
  stop: ({ server, path }) => requireReport(server.post(`${path}/stop`, { force: true })),
  end: terminated,
}

export const ways: readonly Way[] = [
  stop,
  {
    what: 'a deletion',
    stop: async ({ server, path }) => {
      expect((await server.call('DELETE', path)).status).toBe(204)
    },
  },
  force,
  { what: 'a reset', stop: ({ server }) => requireReport(server.post('/api/test/reset-environment', {})) },
  {
    what: 'the end of its request',
    stop: ({ server, scene }) => requireReport(server.post(`/api/requests/${requestOf(scene)}/cleanup`, {})),
    end: terminated,
  },
]

export const killOfSupervisor: Way = {
  what: 'SIGKILL to its supervisor',
  stop: (stage) => (isKept(stage) ? killedAndKept(stage) : killed(stage)),
  isAbrupt: true,
  end: (stage) => (isKept(stage) ? terminated() : { status: 'failed', error: { name: 'supervisor_lost' } }),
}

/** These take a server of their own, and the next one tells what became of the agent. */
export const supervisorWays: readonly Way[] = [
  {
    what: 'SIGTERM to its supervisor',
    stop: async (stage) => {
      await stage.loseServer('SIGTERM')
      stage.requireNothing()
      await stage.nextServer()
    },
    end: terminated,
  },
  killOfSupervisor,
]

/** For one that runs at a runner. */
export const killOfRunner: Way = {
  what: 'SIGKILL to its runner',
  stop: async (stage) => {
    await stage.killRunner()
    await waitUntil(() => processesLeft(stage.scene, stage.staff), 15_000, 'the sentinel of the runner has ended everything')
    // Nobody says that it has ended while nobody can be asked.
    expect(await stage.server.get(stage.path)).toMatchObject({ status: 'running' })
    await stage.nextRunner()
    await stage.over()
  },
  isAbrupt: true,
  end: () => ({ status: 'failed', error: { name: 'unknown_end' } }),
}

const isKept = ({ placement }: Stage): boolean => placement === 'tmux' || placement === 'docker'

/** The sentinel does it, before anybody starts anything. */
async function killed(stage: Stage): Promise<void> {
  await stage.loseServer('SIGKILL')
  await waitUntil(() => stage.left(), 15_000, 'the sentinel has ended everything')
  await stage.nextServer()
}

/** In a terminal or a container an agent is kept for the next server, which adopts it and can stop it. */
async function killedAndKept(stage: Stage): Promise<void> {
  await stage.loseServer('SIGKILL')
  await stage.nextServer()
  expect(processesLeft(stage.scene, stage.staff)).not.toEqual([])
  expect(await stage.server.get(stage.path)).toMatchObject({ status: 'running' })
  await requireReport(stage.server.post(`${stage.path}/stop`, {}))
}
