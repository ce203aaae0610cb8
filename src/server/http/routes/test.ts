import { z } from 'zod'
import type { Undertaken } from '../../../agents/cleanup.ts'
import type { Control } from '../../../control.ts'
import { defaultNamespace } from '../launch.ts'
import { type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'

/** 10,000 events of a few hundred bytes each. */
const scheduleBytes = 32 * 1_048_576

/** For tests: only with `--test-endpoints`. */
export function testRoutes(control: Control): readonly Route[] {
  const { cleanup, agents } = control

  function reset({ force, timeout, namespace }: z.output<typeof schemas.resetBody>, named: string | undefined): Undertaken {
    const where = namespace ?? named
    return cleanup.reset({
      ...(where !== undefined && { namespace: where }),
      ...(force && { force }),
      ...(timeout !== undefined && { timeoutMs: timeout }),
    })
  }

  return [
    route({
      method: 'POST',
      path: '/test/reset-environment',
      summary: 'Bring a namespace, or everything of this server, back to nothing, and prove it',
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
      summary: 'As /cleanup/status',
      query: schemas.inNamespace,
      answers: { 200: schemas.cleanupStatus },
      handle: ({ namespace }) => cleanup.status(namespace),
    }),
    route({
      method: 'GET',
      path: '/test/verify-clean-state',
      summary: 'Is the world clean, and if not, why: each issue names the thing',
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
      summary: 'The same reset, by its other name',
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
      summary: 'Launch an agent that plays a schedule',
      body: schemas.syntheticBody,
      answers: { 201: schemas.created },
      bodyLimit: scheduleBytes,
      handle: async ({ body, namespace }) => {
        const { agent } = await agents.launch({
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
