import type { Agent, AgentStatus } from '../../../src/core/model/agent.ts'
import type { Message, MessageType } from '../../../src/core/model/message.ts'
import type { Report } from '../../../src/core/model/report.ts'
import type { Proof, ResourceState } from '../../../src/core/model/resource.ts'

export { isFinal } from '../../../src/core/model/agent.ts'

/** The parts of the server's answers that the dashboard uses. */
export type { Agent, AgentStatus, Message, MessageType, Proof, Report, ResourceState }

export interface Usage {
  readonly agentId: string
  readonly processes: number
  readonly rssBytes: number
}

export interface ObservedProcess {
  readonly pid: number
  readonly ppid: number
  readonly command: string
  readonly startedAt: string
  readonly rssBytes: number
}

export interface ProcessObservation {
  readonly process_alive: boolean
  readonly exit_code: number | null
  readonly uptime: number
  readonly containment: string
  readonly processes: readonly ObservedProcess[]
}

export interface AgentResource {
  readonly id: string
  readonly kind: string
  readonly name: string
  readonly state: ResourceState
  readonly dependsOn: readonly string[]
  readonly intendedAt: string
  readonly heldAt?: string
  readonly releasedAt?: string
  readonly attempts: number
  readonly proof?: Proof
  readonly error?: string
}

export interface ProviderModel {
  readonly id: string
  readonly name: string
  readonly description: string
  readonly isDefault: boolean
}

export type ProviderInput = 'command' | 'schedule'

export interface Provider {
  readonly type: string
  readonly name: string
  readonly description: string
  readonly isAvailable: boolean
  readonly version?: string
  readonly models: readonly ProviderModel[]
  /** Fields of the launch form that only this provider uses. */
  readonly inputs: readonly ProviderInput[]
}

export interface LaunchBody {
  readonly type: string
  readonly prompt: string
  readonly placement?: string
  readonly namespace?: string
  readonly requestId?: string
  readonly configuration?: Readonly<Record<string, unknown>>
}
