import type { FastifyInstance } from 'fastify'
import type { z } from 'zod'
import type { Clock } from '../../core/ports/clock.ts'
import { installationHeader } from '../../core/ports/runner.ts'
import { read } from '../http/route.ts'
import { readOrder, stopBody } from './body.ts'
import type { Connections } from './connections.ts'
import type { RunnerHost } from './host.ts'
import { stream } from './stream.ts'

/** The runner protocol (docs/in-depth/runner.md): five calls outside `/api`, by which another control plane runs agents on this host. */

export interface RunnerDeps {
  readonly host: RunnerHost
  readonly clock: Clock
  readonly connections: Connections
}

/** The largest body of a launch, the same as for `POST /api/agents`. */
const launchBytes = 8 * 1_048_576

const pingMs = 5_000

interface AgentCall {
  readonly Params: { readonly id: string }
}

export function mountRunner(app: FastifyInstance, deps: RunnerDeps): void {
  const { host, clock } = deps
  app.get('/health', async () => ({
    status: 'ok',
    timestamp: clock.wall(),
    active_agents: await host.activeAgents(),
    installation: host.installation,
  }))
  app.post('/agent/start', { bodyLimit: launchBytes }, async ({ body, raw: { socket } }, reply) => {
    const { id, pid } = await host.launch(readOrder(body), false)
    if (!socket.destroyed) return { agent_id: id, pid: pid ?? null, status: 'started' }
    // The client hung up before it got the id, so it could not stop the agent.
    reply.hijack()
    return await host.remove(id)
  })
  app.post('/agent/stream', { bodyLimit: launchBytes }, (request, reply) => stream({ ...deps, pingMs }, request, reply))
  app.post<AgentCall>('/agent/stop/:id', async ({ params, body }, reply) => {
    const id = idIn(params)
    reply.header(installationHeader, host.installation)
    const { force } = read(stopBody, body, 'body') as z.output<typeof stopBody>
    await host.stop(id, force === true)
    return { status: 'stopped', agent_id: id }
  })
  app.get<AgentCall>('/agent/status/:id', async ({ params }, reply) => {
    const id = idIn(params)
    reply.header(installationHeader, host.installation)
    const { isAlive, exitCode, signal, uptimeMs } = await host.status(id)
    return { agent_id: id, process_alive: isAlive, exit_code: exitCode, signal, uptime: Math.max(0, uptimeMs) / 1_000 }
  })
}

/** Ids are compared in lower case, as in the body of a launch. */
function idIn({ id }: AgentCall['Params']): string {
  return id.toLowerCase()
}
