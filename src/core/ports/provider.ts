import type { AgentResult } from '../model/agent.ts'
import type { McpServer } from '../model/mcp.ts'
import type { MessageBody } from '../model/message.ts'

/** The program behind an agent: how it is started, what its output means, and how it is asked to exit. */

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

/** The statuses that a synthetic agent's script can set. All others follow from what happens to the agent. */
export const scheduledStatuses = ['initializing', 'running', 'completed', 'failed'] as const

/** One event of a synthetic agent's script. */
export interface ScheduledEvent {
  /** The time of the event, in milliseconds from the start of the script. */
  readonly delay: number
  readonly type: 'message' | 'status' | 'error' | 'complete'
  readonly data?: Readonly<Record<string, unknown>>
}

/** The configuration that a client may give an agent besides its prompt. Validated where it enters the program. */
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
  /** Synthetic agents only: starts a real child process, too. */
  readonly process?: boolean
  readonly mcp?: { readonly servers: readonly McpServer[]; readonly strict?: boolean }
}

export interface Assignment {
  readonly agentId: string
  readonly prompt: string
  readonly configuration: Configuration
  /** The file to which the configuration's MCP servers are written as `{"mcpServers": …}`, for programs that read them from a file. */
  readonly mcpFile?: string
}

/** A provider's part of a launch. The placement makes a plan of it. */
export interface Invocation {
  readonly argv: readonly string[]
  /** Variables that are added to the inherited environment. */
  readonly env?: Readonly<Record<string, string>>
  /**
   * The text that is written to standard input, which is then closed. The prompt is passed here, because an argument may have at most 128
   * KB (execve(2)), and `ps` shows it.
   */
  readonly stdin: string
  /** The signal that asks the main process to exit, where SIGTERM is not the best one. */
  readonly politeSignal?: NodeJS.Signals
}

/** The meaning of one line of standard output: at least one message, and perhaps the agent's verdict on its own work. */
export interface Parsed {
  readonly messages: readonly [MessageBody, ...MessageBody[]]
  readonly result?: AgentResult
}

/** An agent that the supervisor plays itself, wholly or in part. */
export interface Script {
  readonly events: readonly ScheduledEvent[]
  /** True when a program is started as well. */
  readonly hasProcess: boolean
}

/** Files that a program leaves in a folder of its user when it is killed. */
export interface TracePlace {
  /** The absolute path of the folder. */
  readonly folder: string
  /** A pattern for the whole name of a file. */
  readonly name: string
  /** A second file that belongs to a file with this name. It is in the same folder and is removed with the first file. */
  readonly kin?: {
    /** A pattern for the whole name of the second file. `{stem}` is the first file's name up to its last dot. */
    readonly name: string
    /**
     * Patterns. The text that each of them finds in the first file must be in the second file, too. By its name alone, the second file may
     * belong to another program by now.
     */
    readonly shares: readonly string[]
  }
}

/** Fields of the configuration that a launch form shows only for the providers that use them. */
export const providerInputs = ['command', 'schedule'] as const
export type ProviderInput = (typeof providerInputs)[number]

export interface Provider {
  readonly type: string
  readonly name: string
  readonly description: string
  readonly capabilities: Capabilities
  readonly models: readonly Model[]
  /** The program to look for on the PATH. Undefined when nothing needs to be installed. */
  readonly program: string | undefined
  /** Fields of the configuration that only this provider uses. */
  readonly inputs?: readonly ProviderInput[]
  /**
   * Agents of this provider may call Ebb although the provider claims no MCP support: whatever program runs finds its MCP servers in the
   * file that `EBB_MCP_CONFIG` names.
   */
  readonly mayCallBack?: true
  /** Returns the provider's part of a launch. Pure. Throws `launch_refused` when the configuration lacks what this provider needs. */
  invoke(assignment: Assignment): Invocation
  /**
   * Parses one line of output. It is pure and keeps no state from earlier lines, because a restarted supervisor continues in the middle. A
   * line that is not understood becomes a message, too.
   */
  parse(line: string): Parsed
  /**
   * Pure. The files that the program leaves in folders of its user when it is killed. Only files with the agent's mark are removed.
   * Conversations belong to the user and are not listed here.
   */
  leaves?(env: Readonly<Record<string, string>>): readonly TracePlace[]
  /** The script of an agent that is scripted, wholly or in part. */
  script?(assignment: Assignment): Script
}

/** A provider in the shape of `GET /api/providers`. */
export interface ProviderInfo {
  readonly type: string
  readonly name: string
  readonly description: string
  readonly isAvailable: boolean
  readonly version?: string
  readonly capabilities: Capabilities
  readonly models: readonly Model[]
  readonly inputs: readonly ProviderInput[]
}

export interface ProviderCatalogue {
  readonly types: readonly string[]
  find(type: string): Provider | undefined
  /** Describes all providers. It looks for their programs again on every call, so a program that was just installed is found. */
  describe(): Promise<readonly ProviderInfo[]>
}
