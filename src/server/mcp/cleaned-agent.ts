import { z } from 'zod'
import type { CleanupResult } from '../../tasks/types.ts'
import { reportSchema } from './result.ts'

/** The evidence that nothing is left of an agent, which kill_real_agent and cleanup_agent_resources answer. */

export const cleanedAgentFields = {
  tmux_session_killed: z.boolean(),
  prompt_file_deleted: z.boolean(),
  log_files_archived: z.boolean(),
  verified_no_zombies: z.boolean(),
  zombie_processes: z.number().optional(),
  zombie_process_details: z.array(z.looseObject({ pid: z.number() })).optional(),
  errors: z.array(z.string()),
  archived_files: z.array(z.string()),
  report: reportSchema,
}

/** How many leftover processes an answer lists. It counts all of them. */
const zombiesShown = 3

export function cleanedAgent(result: CleanupResult): object {
  const { zombies } = result
  return {
    success: result.success,
    tmux_session_killed: result.terminalClosed,
    prompt_file_deleted: result.promptFileDeleted,
    log_files_archived: result.logFilesArchived,
    verified_no_zombies: result.verifiedNoZombies,
    ...(zombies.length > 0 && { zombie_processes: zombies.length, zombie_process_details: zombies.slice(0, zombiesShown) }),
    errors: result.errors,
    archived_files: result.archivedFiles,
    report: result.report,
  }
}
