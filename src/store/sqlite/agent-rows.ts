import type { Agent, AgentError, AgentResult, AgentStatus, KeptConfiguration } from '../../core/model/agent.ts'
import type { Message, MessageType } from '../../core/model/message.ts'
import type { Report } from '../../core/model/report.ts'
import type { AgentRecord } from '../../core/ports/agents.ts'
import type { Row } from './rows.ts'

/** Converts rows of agents and messages into records. A NULL column gives no field. */

export const agentColumns = `number, id, name, type, status, placement, namespace, request_id, task_id, parent_agent_id, prompt, configuration,
  message_count, created_at, started_at, completed_at, exit_code, signal, error`

export function toAgent(row: Row): Agent {
  const configuration = JSON.parse(row.configuration as string) as KeptConfiguration
  return {
    id: row.id as string,
    ...text('name', row.name),
    type: row.type as string,
    status: row.status as AgentStatus,
    placement: row.placement as string,
    namespace: row.namespace as string,
    ...text('requestId', row.request_id),
    ...text('taskId', row.task_id),
    ...text('parentAgentId', row.parent_agent_id),
    session: {
      id: configuration.sessionId ?? (row.id as string),
      prompt: row.prompt as string,
      messageCount: row.message_count as number,
      configuration,
    },
    createdAt: row.created_at as string,
    ...text('startedAt', row.started_at),
    ...text('completedAt', row.completed_at),
    ...(typeof row.exit_code === 'number' && { exitCode: row.exit_code }),
    ...text('signal', row.signal),
    ...(typeof row.error === 'string' && { error: JSON.parse(row.error) as AgentError }),
  }
}

export function toRecord(row: Row): AgentRecord {
  return {
    agent: toAgent(row),
    incarnation: row.incarnation as string,
    ...(typeof row.result === 'string' && { result: JSON.parse(row.result) as AgentResult }),
    ...(typeof row.report === 'string' && { report: JSON.parse(row.report) as Report }),
  }
}

export function toMessage(agentId: string, row: Row): Message {
  return {
    id: row.id as string,
    agentId,
    sequenceNumber: row.sequence as number,
    type: row.type as MessageType,
    ...text('role', row.role),
    content: row.content as string,
    ...(typeof row.raw === 'string' && { raw: JSON.parse(row.raw) as unknown }),
    ...(typeof row.metadata === 'string' && { metadata: JSON.parse(row.metadata) as Record<string, unknown> }),
    createdAt: row.created_at as string,
  }
}

function text<K extends string>(key: K, value: unknown): { [key in K]?: string } {
  return (typeof value === 'string' ? { [key]: value } : {}) as { [key in K]?: string }
}
