import type { AgentResult } from '../model/agent.ts'
import type { McpServer } from '../model/mcp.ts'
import type { MessageBody } from '../model/message.ts'
import type { TracePlace } from './temp.ts'

/** Which program an agent is: how it is started, what its lines mean, how it is asked to leave. */

export interface Capabilities {
  readonly streaming: boolean
  readonly multiTurn: boolean
  readonly toolUse: boolean
  readonly fileAccess: boolean
  readonly customInstructions: boolean
  readonly mcpSupport: boolean
  readonly modelSelection: boolean
}

export interface Model {
  readonly id: string
  readonly name: string
  readonly description: string
  readonly contextWindow: number
  readonly capabilities: readonly string[]
  readonly isAvailable: boolean
  readonly isDefault: boolean
}

/** What a synthetic agent can say of itself; the others follow from what becomes of it. */
export const scheduledStatuses = ['initializing', 'running', 'completed', 'failed'] as const

/** One event of a synthetic agent's script. */
export interface ScheduledEvent {
  /** Milliseconds from the start. */
  readonly delay: number
  readonly type: 'message' | 'status' | 'error' | 'complete'
  readonly data?: Readonly<Record<string, unknown>>
}

/** What a client may say about an agent besides its prompt; validated at the edge. */
export interface Configuration {
  readonly sessionId?: string
  readonly outputFormat?: string
  readonly customArgs?: readonly string[]
  readonly metadata?: Readonly<Record<string, unknown>>
  /** Milliseconds. */
  readonly timeout?: number
  readonly idleTimeout?: number
  readonly allowedTools?: readonly string[]
  readonly disallowedTools?: readonly string[]
  readonly workingDirectory?: string
  readonly conversationName?: string
  readonly model?: string
  readonly instructions?: string
  readonly command?: readonly string[]
  readonly schedule?: readonly ScheduledEvent[]
  readonly env?: Readonly<Record<string, string>>
  readonly limits?: { readonly memoryBytes?: number; readonly pids?: number; readonly logBytes?: number }
  /** Synthetic agents only: with a real child process. */
  readonly process?: boolean
  readonly mcp?: { readonly servers: readonly McpServer[]; readonly strict?: boolean }
}

export interface Assignment {
  readonly agentId: string
  readonly prompt: string
  readonly configuration: Configuration
  /** Where the MCP servers of the configuration will be written down, as `{"mcpServers": …}`, for programs that read a file. */
  readonly mcpFile?: string
}

/** A provider's part of a launch; the placement makes a plan of it. */
export interface Invocation {
  readonly argv: readonly string[]
  /** On top of the inherited environment. */
  readonly env?: Readonly<Record<string, string>>
  /** Written to its standard input, which is then closed. The prompt goes here: an argument may be 128 KB at most, and `ps` shows it. */
  readonly stdin: string
  /** The signal that asks the main process to leave, where SIGTERM is not the best one. */
  readonly politeSignal?: NodeJS.Signals
}

/** What one line of standard output says: one message or more, and perhaps the agent's verdict on its own work. */
export interface Parsed {
  readonly messages: readonly [MessageBody, ...MessageBody[]]
  readonly result?: AgentResult
}

/** What the supervisor itself plays of an agent. */
export interface Script {
  readonly events: readonly ScheduledEvent[]
  /** Is there a program to be started besides? */
  readonly hasProcess: boolean
}

export interface Provider {
  readonly type: string
  readonly name: string
  readonly description: string
  readonly capabilities: Capabilities
  readonly models: readonly Model[]
  /** The program to look for on the PATH; undefined when there is nothing to install. */
  readonly program: string | undefined
  /** Pure. Throws `launch_refused` when the configuration lacks what this provider needs. */
  invoke(assignment: Assignment): Invocation
  /**
   * Pure, and without memory of earlier lines: a supervisor that was restarted goes on in the middle. `line` is never
   * empty of meaning to the caller: what cannot be understood is a message too.
   */
  parse(line: string): Parsed
  /**
   * Pure: what its program leaves in folders of its user's when it is killed, by the environment that it gets. Only what holds
   * the mark of its agent goes; conversations are the user's, and are not named here.
   */
  leaves?(env: Readonly<Record<string, string>>): readonly TracePlace[]
  /** For an agent that is scripted, wholly or in part. */
  script?(assignment: Assignment): Script
}

/** A provider, in the shape that `GET /api/providers` answers. */
export interface ProviderInfo {
  readonly type: string
  readonly name: string
  readonly description: string
  readonly isAvailable: boolean
  readonly version?: string
  readonly capabilities: Capabilities
  readonly models: readonly Model[]
}

export interface ProviderCatalogue {
  readonly types: readonly string[]
  find(type: string): Provider | undefined
  /** Looked up anew: what was installed a moment ago is there. */
  describe(): Promise<readonly ProviderInfo[]>
}
