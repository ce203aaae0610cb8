import { expect } from 'vitest'
import type { Json } from '../../support/server.ts'
import { waitUntil } from '../../support/world.ts'
import { requestOf } from './scene.ts'
import { processesLeft } from './sight.ts'
import type { Stage } from './stage.ts'

/** A way to stop an agent, and the state that the server must report afterwards. */
export interface Way {
  readonly what: string
  /** Stops the agent. Resolves when nothing of the agent is left and a server runs. */
  stop(stage: Stage): Promise<void>
  /** Set when the way also cuts the connection to a runner. Output that the agent writes after that is lost. */
  readonly isAbrupt?: true
  /** The expected state of the agent. Undefined when the agent is deleted. */
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

/** The ways to stop an agent by ending its server. The next server reports the end of the agent. */
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

/** The way to stop an agent of the placement remote by the loss of its runner. */
export const killOfRunner: Way = {
  what: 'SIGKILL to its runner',
  stop: async (stage) => {
    await stage.killRunner()
    await waitUntil(() => processesLeft(stage.scene, stage.ownProcesses), 15_000, 'the sentinel of the runner has ended everything')
    // While the runner cannot be reached, the agent must not be reported as ended.
    expect(await stage.server.get(stage.path)).toMatchObject({ status: 'running' })
    await stage.nextRunner()
    await stage.finalStatus()
  },
  isAbrupt: true,
  end: () => ({ status: 'failed', error: { name: 'unknown_end' } }),
}

const isKept = ({ placement }: Stage): boolean => placement === 'tmux' || placement === 'docker'

/** Kills the server. The sentinel ends everything, before another server starts. */
async function killed(stage: Stage): Promise<void> {
  await stage.loseServer('SIGKILL')
  await waitUntil(() => stage.left(), 15_000, 'the sentinel has ended everything')
  await stage.nextServer()
}

/** In tmux and docker an agent outlives its server. The next server adopts it and can stop it. */
async function killedAndKept(stage: Stage): Promise<void> {
  await stage.loseServer('SIGKILL')
  await stage.nextServer()
  expect(processesLeft(stage.scene, stage.ownProcesses)).not.toEqual([])
  expect(await stage.server.get(stage.path)).toMatchObject({ status: 'running' })
  await requireReport(stage.server.post(`${stage.path}/stop`, {}))
}
