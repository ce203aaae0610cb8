import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import { isOverWith } from '../../../agents/waiting.ts'
import type { Control } from '../../../control.ts'
import { type AgentStatus, activeStatuses } from '../../../core/model/agent.ts'
import { notReleased } from '../../../core/model/errors.ts'
import type { Report } from '../../../core/model/report.ts'
import type { Resource } from '../../../core/model/resource.ts'
import { isRemotePlacement } from '../../../core/ports/placement.ts'
import { launchOf } from '../launch.ts'
import { type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'

/**
 * The largest body of a launch. It has room for a schedule of 10,000 events. A prompt of 5 MB fits too, so that the schema refuses
 * it with a clear message.
 */
const launchBytes = 8 * 1_048_576

const cursorHeader = 'X-Next-Cursor'
const pages = { [cursorHeader]: 'The cursor of the next page; absent on the last page' }

export function agentRoutes(control: Control, containment: string): readonly Route[] {
  const { agents } = control

  async function page(
    { limit, cursor }: z.output<typeof schemas.agentsQuery>,
    namespace: string | undefined,
    statuses: readonly AgentStatus[] | undefined,
    reply: FastifyReply,
  ): Promise<string> {
    const found = await control.store.listJson({
      ...(namespace !== undefined && { namespace }),
      ...(statuses && { statuses }),
      ...(limit !== undefined && { limit }),
      ...(cursor !== undefined && { cursor }),
    })
    if (found.nextCursor !== undefined) reply.header(cursorHeader, found.nextCursor)
    reply.type('application/json; charset=utf-8')
    return found.json
  }

  return [
    route({
      method: 'POST',
      path: '/agents',
      summary: 'Launch an agent',
      body: schemas.launchBody,
      answers: { 201: schemas.created },
      bodyLimit: launchBytes,
      handle: async ({ body, namespace }) => {
        const { agent } = await control.launch(launchOf(body, namespace))
        return { id: agent.id, agentId: agent.id, status: agent.status, createdAt: agent.createdAt }
      },
    }),
    route({
      method: 'GET',
      path: '/agents',
      summary: 'List all agents, newest first',
      query: schemas.agentsQuery,
      answers: { 200: z.array(schemas.agent) },
      headers: pages,
      handle: ({ query, namespace, reply }) => page(query, namespace, query.status, reply),
    }),
    route({
      method: 'GET',
      path: '/agents/active',
      summary: 'List the agents that have not ended, newest first',
      query: schemas.agentsQuery,
      answers: { 200: z.array(schemas.agent) },
      headers: pages,
      handle: ({ query, namespace, reply }) => {
        const statuses = activeStatuses.filter((status) => !query.status || query.status.includes(status))
        return page(query, namespace, statuses, reply)
      },
    }),
    route({
      method: 'GET',
      path: '/agents/usage',
      summary: 'Number of processes and memory of every running agent on this host, observed now',
      query: schemas.inNamespace,
      answers: { 200: z.array(schemas.usage) },
      handle: ({ namespace }) => control.usage(namespace),
    }),
    route({
      method: 'GET',
      path: '/agents/{id}',
      summary: 'Get one agent',
      params: schemas.agentParams,
      answers: { 200: schemas.agent },
      handle: async ({ params }) => (await agents.get(params.id)).agent,
    }),
    route({
      method: 'GET',
      path: '/agents/{id}/status',
      summary: 'Get the status of an agent; `wait` waits until it has ended',
      params: schemas.agentParams,
      query: schemas.waitQuery,
      answers: { 200: z.object({ agentId: schemas.agentId, status: schemas.agentStatus }) },
      handle: async ({ params: { id }, query }) => {
        const ended = await control.waiting.forEnd(id, query.wait ?? 0, async () => {
          const { status } = (await agents.get(id)).agent
          return isOverWith(status) ? status : undefined
        })
        return { agentId: id, status: ended ?? (await agents.get(id)).agent.status }
      },
    }),
    route({
      method: 'GET',
      path: '/agents/{id}/process',
      summary: 'List the processes of an agent, observed now',
      params: schemas.agentParams,
      answers: { 200: schemas.process },
      handle: async ({ params: { id } }) => {
        const { agent } = await agents.get(id)
        const processes = await control.processesOf(id)
        const startedMs = Date.parse(agent.startedAt ?? agent.createdAt)
        const endedMs = agent.completedAt === undefined ? Date.now() : Date.parse(agent.completedAt)
        return {
          agent_id: id,
          process_alive: await control.isAlive(id, processes),
          exit_code: agent.exitCode ?? null,
          uptime: Math.max(0, endedMs - startedMs) / 1_000,
          containment: isRemotePlacement(control.placementTable, agent.placement) ? agent.placement : containment,
          processes,
        }
      },
    }),
    route({
      method: 'GET',
      path: '/agents/{id}/messages',
      summary: 'List the messages of an agent after number `since`; `wait` waits until there is one',
      params: schemas.agentParams,
      query: schemas.messagesQuery,
      answers: { 200: z.array(schemas.message) },
      handle: async ({ params: { id }, query, reply }) => {
        const since = query.since ?? 0
        await control.waiting.forNews(agents, id, since, query.wait ?? 0)
        reply.type('application/json; charset=utf-8')
        return Readable.from(jsonArray((after, limit) => control.store.messages(id, after, limit), since, query.limit))
      },
    }),
    route({
      method: 'GET',
      path: '/agents/{id}/resources',
      summary: 'List the resources of an agent, with their states and proofs',
      params: schemas.agentParams,
      answers: { 200: z.array(schemas.resource) },
      handle: async ({ params: { id } }) => {
        await agents.get(id)
        return (await control.engine.resources(id)).map(resourceShape)
      },
    }),
    route({
      method: 'POST',
      path: '/agents/{id}/stop',
      summary: 'Stop an agent and prove that it is gone; its row and messages are kept',
      params: schemas.agentParams,
      body: schemas.stopBody,
      answers: { 200: schemas.report },
      handle: async ({ params, body: { force, grace } }) =>
        requireReleased(control, await agents.stop(params.id, { ...(force && { force }), ...(grace !== undefined && { graceMs: grace }) })),
    }),
    route({
      method: 'DELETE',
      path: '/agents/{id}',
      summary: 'Stop an agent, prove that it is gone, and delete its row, messages, logs and archives',
      params: schemas.agentParams,
      query: schemas.deleteQuery,
      answers: { 204: null },
      handle: async ({ params, query: { force, timeout } }) => {
        await agents.remove(params.id, { ...(force && { force }), ...(timeout !== undefined && { deadlineMs: timeout }) })
      },
    }),
  ]
}

/** Throws when a remote resource is not proven gone. The resource may still run, so the stop fails with 409, as a deletion does. */
function requireReleased({ engine }: Control, report: Report): Report {
  const left = report.resources.some(({ kind, outcome }) => outcome === 'stuck' && engine.traitsOf(kind)?.isRemote)
  if (left) throw notReleased(report)
  return report
}

/** A resource without its spec, which is internal. */
export function resourceShape({
  id,
  kind,
  name,
  state,
  dependsOn,
  intendedAt,
  heldAt,
  releasedAt,
  attempts,
  proof,
  error,
}: Resource): unknown {
  return { id, kind, name, state, dependsOn, intendedAt, heldAt, releasedAt, attempts, proof, error }
}

/** The number of rows per page. Pages limit the memory for an answer of a million rows, and let other requests run in between. */
const pageSize = 1_000

/** Streams a JSON array of numbered rows, page by page. */
async function* jsonArray<T extends { readonly sequenceNumber: number }>(
  page: (after: number, limit: number) => Promise<readonly T[]>,
  since: number,
  limit = Number.POSITIVE_INFINITY,
): AsyncGenerator<string> {
  let after = since
  let left = limit
  let separator = '['
  while (left > 0) {
    const rows = await page(after, Math.min(pageSize, left))
    const last = rows.at(-1)
    if (!last) break
    yield separator + rows.map((row) => JSON.stringify(row)).join(',')
    separator = ','
    after = last.sequenceNumber
    left -= rows.length
  }
  yield separator === '[' ? '[]' : ']'
}
