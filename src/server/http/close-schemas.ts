import { z } from 'zod'
import { triggers } from '../../core/model/close-request.ts'
import { ladderSteps } from '../../core/model/ladder.ts'
import { releaseStates } from '../../core/model/progress.ts'

/** Schemas of a close: its report, its entry in the history, and its progress. */

export const instant = z.iso.datetime()
export const proof = z.object({ method: z.string(), strength: z.enum(['kernel', 'api', 'scan']), at: instant })
const scope = z.object({ kind: z.enum(['host', 'namespace', 'request', 'task', 'agent']), id: z.string() })

const resource = {
  kind: z.string(),
  name: z.string(),
  steps: z.array(z.object({ step: z.enum(ladderSteps), at: instant, took: z.number() })),
  proof: proof.optional(),
  error: z.string().optional(),
  notes: z.array(z.string()).optional(),
  startedAt: instant.optional(),
  endedAt: instant.optional(),
  obligations: z.object({ at: instant, took: z.number() }).optional(),
}

export const report = z.object({
  success: z.boolean(),
  trigger: z.enum(triggers),
  scope,
  startedAt: instant,
  duration: z.number(),
  cleanedAgentsCount: z.number().int(),
  cleanedMessagesCount: z.number().int(),
  resources: z.array(
    z.object({
      ...resource,
      outcome: z.enum(['released', 'stuck', 'held-back', 'given-up']),
      id: z.string().optional(),
      scope: scope.optional(),
      dependsOn: z.array(z.string()).optional(),
    }),
  ),
  errors: z.array(z.string()),
  gaveUp: z.array(z.string()),
})

const progress = z.object({
  ...resource,
  id: z.string(),
  scope,
  dependsOn: z.array(z.string()),
  state: z.enum(releaseStates),
  since: instant,
})

export const historyEntry = z.object({
  id: z.string(),
  state: z.enum(['running', 'done']),
  trigger: z.enum(triggers),
  scope,
  startedAt: instant,
  duration: z.number(),
  success: z.boolean(),
  released: z.number().int(),
  stuck: z.number().int(),
  errors: z.array(z.string()),
  escalation: z.enum(ladderSteps).optional(),
})

/** An entry of the history: a close with its report, or, while the close runs, with the progress of its resources. */
export const historyDetail = historyEntry.extend({ report: report.optional(), progress: z.array(progress).optional() })
