import { z } from 'zod'
import type { Undertaken } from '../../../agents/cleanup.ts'
import type { Control } from '../../../control.ts'
import { defaultNamespace } from '../launch.ts'
import { type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'

/** The largest body with a schedule. It has room for 10,000 events of a few kilobytes each. */
const scheduleBytes = 32 * 1_048_576

/** Routes for tests; they exist only with `--test-endpoints`. */
export function testRoutes(control: Control): readonly Route[] {
  const { cleanup } = control

  function reset({ force, timeout, namespace }: z.output<typeof schemas.resetBody>, named: string | undefined): Undertaken {
    const chosen = namespace ?? named
    return cleanup.reset({
      ...(chosen !== undefined && { namespace: chosen }),
      ...(force && { force }),
      ...(timeout !== undefined && { timeoutMs: timeout }),
    })
  }

  return [
    route({
      method: 'POST',
      path: '/test/reset-environment',
      summary: 'Close and delete everything in a namespace, or in all namespaces of this server, and prove it',
      body: schemas.resetBody,
      answers: { 200: schemas.report, 202: z.object({ id: z.string() }) },
      handle: async ({ body, namespace, reply }) => {
        const { id, report } = reset(body, namespace)
        if (body.waitForCompletion ?? true) return await report
        reply.code(202)
        return { id }
      },
    }),
    route({
      method: 'GET',
      path: '/test/cleanup-status',
      summary: 'The same as /cleanup/status',
      query: schemas.inNamespace,
      answers: { 200: schemas.cleanupStatus },
      handle: ({ namespace }) => cleanup.status(namespace),
    }),
    route({
      method: 'GET',
      path: '/test/verify-clean-state',
      summary: 'Tell whether the system is clean; each issue names what is left',
      query: schemas.inNamespace,
      answers: { 200: schemas.cleanState },
      handle: async ({ namespace }) => {
        const { status, issues } = await cleanup.look(namespace)
        const { isClean, agentCount, messageCount, runningProcesses, activeSubscriptions } = status
        return { isClean, issues, agentCount, messageCount, runningProcesses, activeSubscriptions }
      },
    }),
    route({
      method: 'POST',
      path: '/test/reset-database',
      summary: 'The same as /test/reset-environment, with a short answer',
      body: schemas.resetBody,
      answers: { 200: z.object({ success: z.boolean(), deletedCount: z.number().int() }) },
      handle: async ({ body, namespace }) => {
        const { success, cleanedAgentsCount } = await reset(body, namespace).report
        return { success, deletedCount: cleanedAgentsCount }
      },
    }),
    route({
      method: 'POST',
      path: '/test/agents/synthetic',
      summary: 'Launch a synthetic agent that plays a schedule of events',
      body: schemas.syntheticBody,
      answers: { 201: schemas.created },
      bodyLimit: scheduleBytes,
      handle: async ({ body, namespace }) => {
        const { agent } = await control.launch({
          type: 'synthetic',
          prompt: body.prompt,
          namespace: body.namespace ?? namespace ?? defaultNamespace,
          configuration: { schedule: body.schedule as never, process: body.process ?? false },
        })
        return { id: agent.id, agentId: agent.id, status: agent.status, createdAt: agent.createdAt }
      },
    }),
  ]
}
