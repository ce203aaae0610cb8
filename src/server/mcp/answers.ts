import { z } from 'zod'

/**
 * Schemas of the tools' answers. They are loose, so that a client accepts fields that a later server adds. All fields but `success`
 * are optional: a failed answer has only `success`, `error` and `code`. Some clients check it against the same schema, and hide an
 * answer that does not fit from the model.
 */

const text = z.string()
const texts = z.array(z.string())
const report = z
  .looseObject({ success: z.boolean(), trigger: text, errors: texts })
  .describe('What the close did, resource by resource, with proof.')
const success = z.boolean()
const failure = { error: text.optional(), code: text.optional() }

function answer<S extends z.ZodRawShape>(fields: S) {
  return z.looseObject({ ...z.object(fields).partial().shape, ...failure, success })
}

const scheduled = z.looseObject({ scheduled: z.literal(true), by: text })

export const created = answer({ task_id: text, workspace: text, status: text })

export const deployed = answer({
  agent_id: text,
  tmux_session: text.nullable(),
  tmux_socket: text.nullable(),
  status: text,
  workspace: text,
  deduplicated: z.boolean().optional(),
})

export const taskStatus = answer({
  task_id: text,
  description: text,
  status: text,
  workspace: text,
  agents: z.looseObject({
    total_spawned: z.number(),
    active: z.number(),
    completed: z.number(),
    agents_list: z.array(z.looseObject({ agent_id: text, status: text })),
  }),
  hierarchy: z.array(z.looseObject({ agent_id: text, status: text })),
  limits: z.looseObject({}),
})

export const output = answer({ output: texts, next: z.number() })

const cleanup = {
  tmux_session_killed: z.boolean(),
  prompt_file_deleted: z.boolean(),
  log_files_archived: z.boolean(),
  verified_no_zombies: z.boolean(),
  zombie_processes: z.number().optional(),
  zombie_process_details: z.array(z.looseObject({ pid: z.number() })).optional(),
  errors: texts,
  archived_files: texts,
  report,
}

export const cleaned = answer(cleanup)

export const killed = answer({ agent_id: text, reason: text, cleanup: z.looseObject({ success, ...cleanup }) })
export const progressTaken = answer({ own_update: z.boolean(), cleanup: scheduled.optional() })
export const findingTaken = answer({ own_finding: z.boolean() })
export const completed = answer({ report })

/** The same fields as in the answer over HTTP. Only a failed answer has `success`. */
export const cleanupStatus = answer({
  isClean: z.boolean(),
  agentCount: z.number(),
  runningProcesses: z.number(),
  leaks: z.array(z.unknown()),
  stuck: z.array(z.unknown()),
}).partial({ success: true })
