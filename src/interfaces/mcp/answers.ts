import { z } from 'zod'

/** What the tools answer. Loose: fields may be added, and a client of today must not refuse what a server of tomorrow says. */

const text = z.string()
const texts = z.array(z.string())
const report = z
  .looseObject({ success: z.boolean(), trigger: text, errors: texts })
  .describe('What the close did, resource by resource, with proof.')
const success = z.boolean()
const scheduled = z.looseObject({ scheduled: z.literal(true), by: text })

export const created = z.looseObject({ success, task_id: text, workspace: text, status: text })

export const deployed = z.looseObject({
  success,
  agent_id: text,
  tmux_session: text.nullable(),
  tmux_socket: text.nullable(),
  status: text,
  workspace: text,
  deduplicated: z.boolean().optional(),
})

export const taskStatus = z.looseObject({
  success,
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

export const output = z.looseObject({ success, output: texts, next: z.number() })

export const cleaned = z.looseObject({
  success,
  tmux_session_killed: z.boolean(),
  prompt_file_deleted: z.boolean(),
  log_files_archived: z.boolean(),
  verified_no_zombies: z.boolean(),
  zombie_processes: z.number().optional(),
  zombie_process_details: z.array(z.looseObject({ pid: z.number() })).optional(),
  errors: texts,
  archived_files: texts,
  report,
})

export const killed = z.looseObject({ success, agent_id: text, reason: text, cleanup: cleaned })
export const progressTaken = z.looseObject({ success, own_update: z.boolean(), cleanup: scheduled.optional() })
export const findingTaken = z.looseObject({ success, own_finding: z.boolean() })
export const completed = z.looseObject({ success, report })

export const cleanupStatus = z.looseObject({
  isClean: z.boolean(),
  agentCount: z.number(),
  runningProcesses: z.number(),
  leaks: z.array(z.unknown()),
  stuck: z.array(z.unknown()),
})
