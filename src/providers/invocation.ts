import { EbbError } from '../domain/errors.ts'
import type { McpServer } from '../ports/provider.ts'

/** What the providers share in making an argv. */

/** MAX_ARG_STRLEN of execve(2), the closing NUL included. */
const argumentLimitBytes = 131_072

/** In one argument: a value that begins with a dash is still a value. */
export function flag(name: string, value: string | undefined): readonly string[] {
  return value ? [`${name}=${value}`] : []
}

/** Clients send empty lists for what they do not mean to say. */
export function flagList(name: string, values: readonly string[] | undefined): readonly string[] {
  return flag(name, values?.join(','))
}

export function fits(argument: string): boolean {
  return Buffer.byteLength(argument) < argumentLimitBytes
}

/** For programs without a place for instructions, and for instructions that are too long for it. */
export function instructed(prompt: string, instructions: string | undefined): string {
  return instructions ? `${instructions}\n\n${prompt}` : prompt
}

/** Rather no agent than one that may do more than it was told, or lacks what it was promised. */
export function refuse(sentence: string): never {
  throw new EbbError('launch_refused', sentence)
}

/** One that is reached at an address, which is then in the place of the command. */
export function isRemote(server: McpServer): boolean {
  return server.transport !== undefined && server.transport !== 'stdio'
}

export interface CarriedServer {
  readonly server: McpServer
  /** By the variable of the server, the one of the agent that holds its value. */
  readonly carriers: Readonly<Record<string, string>>
}

/**
 * The servers' variables travel in the agent's environment, each under a name that means nothing to the agent itself:
 * everybody sees arguments in `ps`, and only the same user an environment.
 */
export function carry(servers: readonly McpServer[]): {
  readonly servers: readonly CarriedServer[]
  readonly env: Readonly<Record<string, string>>
} {
  const env: Record<string, string> = {}
  const carried = servers.map((server, at) => {
    const pairs = Object.entries(server.env ?? {}).map(([name, value], index): [string, string] => {
      const carrier = `AGENT_MCP_${at}_${index}`
      env[carrier] = value
      return [name, carrier]
    })
    return { server, carriers: Object.fromEntries(pairs) }
  })
  return { servers: carried, env }
}
