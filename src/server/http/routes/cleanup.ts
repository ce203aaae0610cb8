import { z } from 'zod'
import type { Control } from '../../../control.ts'
import { EbbError } from '../../../core/model/errors.ts'
import type { Report } from '../../../core/model/report.ts'
import { defaultNamespace } from '../launch.ts'
import { type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'

const historyShown = 100

export function cleanupRoutes(control: Control): readonly Route[] {
  const { cleanup, engine, history, owners, agents } = control

  /** Closes one agent, request or task, or a whole namespace. Rows and archives are kept. */
  async function clean(body: z.output<typeof schemas.cleanupBody>, named: string | undefined): Promise<Report> {
    const force = body.force ?? false
    const namespace = body.namespace ?? named
    if (body.scope === 'all') return await cleanup.closeNamespace(namespace, 'request-finished', force)
    if (body.agentId !== undefined) return await agents.stop(body.agentId, force ? { force } : {})
    const kind = body.taskId === undefined ? 'request' : 'task'
    const id = body.taskId ?? body.requestId
    if (id === undefined)
      throw new EbbError('invalid_request', 'A cleanup of scope "single" needs an agentId, a requestId or a taskId; add one of them.', {
        details: [{ path: 'agentId', message: 'Give one of agentId, requestId and taskId.' }],
      })
    const { report } = await owners.close({ kind, namespace: namespace ?? defaultNamespace, id }, force)
    return await report
  }

  return [
    route({
      method: 'POST',
      path: '/cleanup',
      summary: 'Close one agent, request or task, or everything in a namespace',
      body: schemas.cleanupBody,
      answers: { 200: schemas.report },
      handle: ({ body, namespace }) => clean(body, namespace),
    }),
    route({
      method: 'GET',
      path: '/cleanup/status',
      summary: 'Tell whether the system is clean, by observing it and not by the ledger alone',
      query: schemas.inNamespace,
      answers: { 200: schemas.cleanupStatus },
      handle: ({ namespace }) => cleanup.status(namespace),
    }),
    route({
      method: 'GET',
      path: '/cleanup/history',
      summary: 'List past and running closes, newest first',
      query: schemas.historyQuery,
      answers: { 200: z.array(schemas.historyEntry) },
      handle: ({ query }) => history.list(query.limit ?? historyShown, query),
    }),
    route({
      method: 'GET',
      path: '/cleanup/history/{id}',
      summary: 'Get one close with its report, or, while it runs, with the progress of its resources',
      params: schemas.reportParams,
      answers: { 200: schemas.historyDetail },
      handle: async ({ params: { id } }) => {
        const found = await history.find(id)
        if (!found) throw new EbbError('report_not_found', `There is no cleanup ${id} in the history.`)
        return found
      },
    }),
    route({
      method: 'POST',
      path: '/reaper/run',
      summary: 'Run one reaper pass now, which finds and releases leftovers',
      body: schemas.reaperBody,
      answers: { 200: schemas.reaperPass },
      handle: async ({ body }) => {
        const { found, released, left } = await engine.reap({ dryRun: body.dryRun ?? false })
        return { found, released, left }
      },
    }),
  ]
}
