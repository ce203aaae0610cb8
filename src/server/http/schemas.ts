import { z } from 'zod'
import { closeOutcomes } from '../../agents/history.ts'
import { agentStatuses } from '../../core/model/agent.ts'
import { triggers } from '../../core/model/close-request.ts'
import { messageTypes } from '../../core/model/message.ts'
import * as names from '../../core/model/names.ts'
import { providerInputs, type ScheduledEvent, scheduledStatuses } from '../../core/ports/provider.ts'
import { instant, proof } from './close-schemas.ts'

export { historyDetail, historyEntry, report } from './close-schemas.ts'

/** Schemas of all requests and answers. Validation, types and the OpenAPI document come from them. */

const named = ({ pattern, says }: names.NameRule): z.ZodString => z.string().regex(pattern, `must be a name of ${says}`)
const plainName = named(names.ownerName)
export const namespaceName = named(names.namespaceName)
/** Ids are compared in lower case. */
export const agentId = z.uuid().toLowerCase()
const record = z.record(z.string(), z.unknown())

/** The deepest nesting of a stored value. `JSON.stringify` recurses, and 5,000 levels overflow the stack. */
const mostLevels = 100
const data = record.refine((value) => isShallow(value), `must be nested at most ${mostLevels} deep`)

export function isShallow(value: unknown): boolean {
  let level = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > mostLevels) return false
    level = level.flatMap((part) => (typeof part === 'object' && part !== null ? Object.values(part) : []))
  }
  return true
}

/** A duration in ms. Node's timers take at most 2^31-1. */
const durationMs = z.number().int().min(0).max(2_147_483_647)
/** A number in a query: a text of digits. An empty text means that the parameter is absent. */
const inDigits = (schema: z.ZodNumber) =>
  z.preprocess((text) => {
    if (text === '') return undefined
    return typeof text === 'string' && /^\d+$/.test(text) ? Number(text) : text
  }, schema.optional())
const flag = z.enum(['true', 'false', '1', '0', '']).transform((text) => text !== 'false' && text !== '0')

/** An argument or a variable of a program. NUL ends a C string, so it cannot be passed to a program. */
export const argument = z
  .string()
  .max(131_071)
  .regex(/^[^\0]*$/, 'must have no NUL characters')
const variables = z.record(z.string().regex(/^[^=\0]+$/, 'must be a name without = and NUL'), argument)

/** A prompt of at most 1 MB. Larger input belongs in a file. */
const prompt = z.string().max(1_048_576)

/** The data of a scheduled event: its own fields, and any others, which are kept. */
const eventData = <Shape extends z.ZodRawShape>(shape: Shape) => z.looseObject(shape).refine(isShallow, `nested at most ${mostLevels} deep`)
const scheduled = <Type extends ScheduledEvent['type'], Data extends z.ZodType>(type: Type, fields: Data) =>
  z.object({ delay: durationMs, type: z.enum([type]), data: fields })

const scheduledEvent = z.discriminatedUnion('type', [
  scheduled(
    'message',
    eventData({ content: z.string(), type: z.enum(messageTypes).optional(), role: z.string().optional(), metadata: record.optional() }),
  ),
  scheduled('status', eventData({ status: z.enum(scheduledStatuses, 'a schedule can set initializing, running, completed or failed') })),
  scheduled('error', eventData({ message: z.string(), name: z.string().optional() })),
  scheduled('complete', eventData({ success: z.boolean().optional() }).optional()),
])
const schedule = z.array(scheduledEvent).max(10_000)

const limits = z.object({
  memoryBytes: z.number().int().min(1).optional(),
  pids: z.number().int().min(1).optional(),
  logBytes: z.number().int().min(1).optional(),
})

export const configuration = z.object({
  sessionId: z.string().max(200).optional(),
  outputFormat: z.string().max(100).optional(),
  customArgs: z.array(argument).max(1_000).optional(),
  metadata: data.optional(),
  timeout: durationMs.min(1).optional(),
  idleTimeout: durationMs.min(1).optional(),
  allowedTools: z.array(argument).max(1_000).optional(),
  disallowedTools: z.array(argument).max(1_000).optional(),
  // The path must be absolute. A relative one would depend on the server's own folder, which the caller does not know.
  workingDirectory: argument.max(4_096).regex(/^\//, 'must be an absolute path').optional(),
  conversationName: z.string().max(100).optional(),
  model: argument.min(1).max(200).optional(),
  instructions: z.string().max(100_000).optional(),
  command: z.array(argument).min(1).max(10_000).optional(),
  schedule: schedule.optional(),
  env: variables.optional(),
  limits: limits.optional(),
  mcp: z
    .object({
      servers: z
        .array(
          z.object({
            name: plainName,
            command: argument.min(1),
            args: z.array(argument).max(1_000).optional(),
            env: variables.optional(),
            transport: z.string().max(100).optional(),
          }),
        )
        .max(100),
      strict: z.boolean().optional(),
    })
    .optional(),
})

export const launchBody = z.object({
  type: z.string().min(1).max(100),
  prompt,
  placement: z.string().max(100).optional(),
  namespace: namespaceName.optional(),
  requestId: plainName.optional(),
  taskId: plainName.optional(),
  parentAgentId: agentId.optional(),
  configuration: configuration.optional(),
})

export const syntheticBody = z.object({ prompt, schedule, process: z.boolean().optional(), namespace: namespaceName.optional() })
export const stopBody = z.object({ force: z.boolean().optional(), grace: durationMs.optional() })
export const requestBody = z.object({ id: plainName, timeout: durationMs.min(1).optional(), namespace: namespaceName.optional() })
export const requestCleanupBody = z.object({ force: z.boolean().optional(), waitForCompletion: z.boolean().optional() })
export const cleanupBody = z
  .object({
    scope: z.enum(['single', 'all']),
    requestId: plainName.optional(),
    agentId: agentId.optional(),
    taskId: plainName.optional(),
    namespace: namespaceName.optional(),
    force: z.boolean().optional(),
  })
  .superRefine((body, { addIssue }) => {
    // A body that names an agent, a request or a task was not meant for everything, so the scope `all` is refused in it.
    for (const name of ['agentId', 'requestId', 'taskId'] as const)
      if (body.scope === 'all' && body[name] !== undefined)
        addIssue({ code: 'custom', path: [name], message: 'is only for the scope "single"; the scope "all" takes a namespace only' })
  })
export const resetBody = z.object({
  force: z.boolean().optional(),
  waitForCompletion: z.boolean().optional(),
  timeout: durationMs.optional(),
  namespace: namespaceName.optional(),
})
export const reaperBody = z.object({ dryRun: z.boolean().optional() })

export const agentParams = z.object({ id: agentId })
export const requestParams = z.object({ requestId: plainName })
export const reportParams = z.object({ id: agentId })
const count = inDigits(z.number().int().min(0))
const limit = inDigits(z.number().int().min(1).max(100_000))
/** The longest wait of a call for an event. The call ends at the event. Proxies cut requests that take longer than this. */
const wait = inDigits(z.number().int().min(0).max(60_000)).describe('How long to wait for the event, in ms')

export const inNamespace = z.object({ namespace: namespaceName.optional() })
export const agentsQuery = z.object({
  namespace: namespaceName.optional(),
  status: z
    .string()
    .transform((text) => text.split(','))
    .pipe(z.array(z.enum(agentStatuses)))
    .optional(),
  limit: limit.optional(),
  cursor: z
    .string()
    .regex(/^\d{0,15}$/, 'must be the X-Next-Cursor of an earlier answer')
    .transform((text) => (text === '' ? undefined : text))
    .optional(),
})
export const messagesQuery = z.object({ since: count.optional(), limit: limit.optional(), wait: wait.optional() })
export const waitQuery = z.object({ wait: wait.optional() })
export const deleteQuery = z.object({ force: flag.optional(), timeout: inDigits(durationMs).optional() })
export const historyQuery = z.object({
  limit: limit.optional(),
  trigger: z.enum(triggers).optional(),
  outcome: z.enum(closeOutcomes).optional(),
  hadResources: flag.optional().describe('Only closes that had resources to release'),
})

export const agentStatus = z.enum(agentStatuses)
const agentError = z.object({ name: z.string(), message: z.string() })
export const agent = z.object({
  id: agentId,
  name: z.string().optional(),
  type: z.string(),
  status: agentStatus,
  placement: z.string(),
  namespace: z.string(),
  requestId: z.string().optional(),
  taskId: z.string().optional(),
  parentAgentId: z.string().optional(),
  session: z.object({
    id: z.string(),
    prompt: z.string(),
    messageCount: z.number().int(),
    configuration: z.object({
      workingDirectory: z.string().optional(),
      conversationName: z.string().optional(),
      metadata: record.optional(),
      sessionId: z.string().optional(),
      model: z.string().optional(),
      limits: limits.optional(),
      timeout: durationMs.optional(),
      idleTimeout: durationMs.optional(),
    }),
  }),
  createdAt: instant,
  startedAt: instant.optional(),
  completedAt: instant.optional(),
  exitCode: z.number().int().optional(),
  signal: z.string().optional(),
  error: agentError.optional(),
})

export const created = z.object({ id: agentId, agentId, status: agentStatus, createdAt: instant })
export const message = z.object({
  id: z.uuid(),
  agentId,
  sequenceNumber: z.number().int().min(1),
  type: z.enum(messageTypes),
  role: z.string().optional(),
  content: z.string(),
  raw: z.unknown().optional(),
  metadata: record.optional(),
  createdAt: instant,
})

export const resource = z.object({
  id: z.string(),
  kind: z.string(),
  name: z.string(),
  state: z.enum(['intended', 'held', 'closing', 'released', 'stuck']),
  dependsOn: z.array(z.string()),
  intendedAt: instant,
  heldAt: instant.optional(),
  releasedAt: instant.optional(),
  attempts: z.number().int(),
  proof: proof.optional(),
  error: z.string().optional(),
})

export const process = z.object({
  agent_id: agentId,
  process_alive: z.boolean(),
  exit_code: z.number().int().nullable(),
  uptime: z.number(),
  containment: z.string(),
  processes: z.array(
    z.object({ pid: z.number().int(), ppid: z.number().int(), command: z.string(), startedAt: instant, rssBytes: z.number() }),
  ),
})

export const usage = z.object({ agentId, processes: z.number().int(), rssBytes: z.number() })

export const request = z.object({
  id: z.string(),
  namespace: z.string(),
  state: z.enum(['open', 'closing', 'closed']),
  agents: z.array(agent),
  resources: z.array(resource),
})

const counts = {
  agentCount: z.number().int(),
  messageCount: z.number().int(),
  runningProcesses: z.number().int(),
  activeSubscriptions: z.number().int(),
}
export const cleanupStatus = z.object({
  isClean: z.boolean(),
  ...counts,
  resources: z.record(z.string(), z.object({ held: z.number().int(), closing: z.number().int(), stuck: z.number().int() })),
  leaks: z.array(z.string()),
  stuck: z.array(z.string()),
  heldBack: z.array(z.string()),
})
export const cleanState = z.object({ isClean: z.boolean(), issues: z.array(z.string()), ...counts })

const orphan = z.object({ kind: z.string(), name: z.string(), why: z.string(), detail: z.string() })
export const reaperPass = z.object({ found: z.array(orphan), released: z.array(orphan), left: z.array(orphan) })

export const health = z.object({
  status: z.enum(['ok', 'broken']),
  pid: z.number().int(),
  uptime: z.number(),
  memoryUsage: z.record(z.string(), z.number()),
  activeAgents: z.number().int(),
  totalAgents: z.number().int(),
  databaseStatus: z.enum(['connected', 'unavailable']),
  startedAt: instant,
  port: z.number().int(),
  nodeVersion: z.string(),
  instanceId: z.string(),
  containment: z.string(),
  stuck: z.number().int(),
  problems: z.array(z.string()).optional(),
  version: z.string(),
  host: z.object({ name: z.string(), platform: z.string() }),
  /** The placements that can be used with the server's settings. */
  placements: z.array(z.string()),
  testEndpoints: z.boolean(),
  runner: z.boolean(),
})

export const host = z.object({
  name: z.string(),
  role: z.enum(['control', 'runner']),
  url: z.string().optional(),
  status: z.enum(['well', 'broken', 'unreachable']),
  /** The reason, when the host is not well. */
  says: z.string().optional(),
  activeAgents: z.number().int().optional(),
  containment: z.string().optional(),
})

export const placements = z.object({
  placements: z.array(
    z.object({
      name: z.string(),
      title: z.string(),
      /** False when the placement lacks the setting or the program that it needs. */
      isAvailable: z.boolean(),
      /** True for the placement of a launch that names none. */
      isDefault: z.boolean(),
      /** True when the placement's agents are not processes of the server's host. */
      isRemote: z.boolean(),
      /** True when the placement's agents have a terminal that a person can attach to. */
      hasTerminal: z.boolean(),
      /** True when the placement's agents run at a host of their own, which `/hosts` lists. */
      hasHost: z.boolean(),
      needs: z.object({ setting: z.string(), what: z.string() }).optional(),
    }),
  ),
  kinds: z.array(
    z.object({
      name: z.string(),
      title: z.string(),
      /** True when the last step of the kind's release ends running processes. For other kinds that step only removes the resource. */
      endsProcesses: z.boolean(),
      /** True when resources of the kind are on another host. */
      isOnOtherHost: z.boolean(),
    }),
  ),
})

export const providers = z.object({
  totalCount: z.number().int(),
  providers: z.array(
    z.object({
      type: z.string(),
      name: z.string(),
      description: z.string(),
      isAvailable: z.boolean(),
      version: z.string().optional(),
      capabilities: z.record(z.string(), z.boolean()),
      models: z.array(
        z.object({
          id: z.string(),
          name: z.string(),
          description: z.string(),
          contextWindow: z.number().int(),
          capabilities: z.array(z.string()),
          isAvailable: z.boolean(),
          isDefault: z.boolean(),
        }),
      ),
      /** Fields of the configuration that only the listed provider uses. */
      inputs: z.array(z.enum(providerInputs)),
    }),
  ),
})

export const failure = z.object({ statusCode: z.number().int(), code: z.string(), message: z.string(), details: z.unknown().optional() })
