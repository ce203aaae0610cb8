import type { ToolDefinition } from '../tool.ts'
import { cleanupAgentResources } from './cleanup-agent-resources.ts'
import { completeRealTask } from './complete-real-task.ts'
import { createRealTask } from './create-real-task.ts'
import { deployHeadlessAgent } from './deploy-headless-agent.ts'
import { getAgentOutput } from './get-agent-output.ts'
import { getCleanupStatus } from './get-cleanup-status.ts'
import { getRealTaskStatus } from './get-real-task-status.ts'
import { killRealAgent } from './kill-real-agent.ts'
import { reportAgentFinding } from './report-agent-finding.ts'
import { spawnChildAgent } from './spawn-child-agent.ts'
import { updateAgentProgress } from './update-agent-progress.ts'

/** Every MCP tool, in the order of `tools/list`. A new one is a file with a definition, and a line here. */
export const tools: readonly ToolDefinition[] = [
  createRealTask,
  deployHeadlessAgent,
  spawnChildAgent,
  getRealTaskStatus,
  getAgentOutput,
  killRealAgent,
  cleanupAgentResources,
  updateAgentProgress,
  reportAgentFinding,
  completeRealTask,
  getCleanupStatus,
]
