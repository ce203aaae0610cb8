import { z } from 'zod'
import type { OwnerName } from '../../../agents/owners.ts'
import type { Control } from '../../../control.ts'
import { defaultNamespace } from '../launch.ts'
import { type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'
import { resourceShape } from './agents.ts'

export function requestRoutes(control: Control): readonly Route[] {
  const { owners, agents, engine } = control
  const nameOf = (id: string, namespace: string | undefined): OwnerName => ({
    kind: 'request',
    namespace: namespace ?? defaultNamespace,
    id,
  })

  async function show(name: OwnerName): Promise<unknown> {
    const { scopeId, state } = await owners.find(name)
    const { agents: found } = await agents.list({ namespace: name.namespace, requestId: name.id })
    const scopeIds = [scopeId, ...found.map(({ id }) => id)]
    const resources = await Promise.all(scopeIds.map((id) => engine.resources(id)))
    return { id: name.id, namespace: name.namespace, state, agents: found, resources: resources.flat().map(resourceShape) }
  }

  return [
    route({
      method: 'POST',
      path: '/requests',
      summary: 'Open a request before its first agent is launched',
      body: schemas.requestBody,
      answers: { 201: schemas.request },
      handle: async ({ body, namespace }) => {
        const name = nameOf(body.id, body.namespace ?? namespace)
        await owners.open(name, body.timeout)
        return await show(name)
      },
    }),
    route({
      method: 'GET',
      path: '/requests/{requestId}',
      summary: 'Get a request with its agents and their resources',
      params: schemas.requestParams,
      query: schemas.inNamespace,
      answers: { 200: schemas.request },
      handle: ({ params, namespace }) => show(nameOf(params.requestId, namespace)),
    }),
    route({
      method: 'POST',
      path: '/requests/{requestId}/cleanup',
      summary: 'Close a request with everything in it, with proof; it accepts no more agents',
      params: schemas.requestParams,
      query: schemas.inNamespace,
      body: schemas.requestCleanupBody,
      answers: { 200: schemas.report, 202: z.object({ id: z.string() }) },
      handle: async ({ params, body, namespace, reply }) => {
        const name = nameOf(params.requestId, namespace)
        const force = body.force ?? false
        if (body.waitForCompletion ?? true) return await (await owners.close(name, force)).report
        reply.code(202)
        return { id: await owners.beginClose(name, force) }
      },
    }),
  ]
}
