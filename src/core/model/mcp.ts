/** The MCP servers of an agent, and how their secrets are passed on. */

export interface McpServer {
  readonly name: string
  readonly command: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly transport?: string
  /**
   * The server is Ebb itself. The values of its variables are the agent's own token and Ebb's address, and may be written into the agent's
   * file.
   */
  readonly isOurs?: boolean
}

/** A remote server is reached at a URL, which is in `command`. */
export function isRemote(server: McpServer): boolean {
  return server.transport !== undefined && server.transport !== 'stdio'
}

export interface CarriedServer {
  readonly server: McpServer
  /** For each variable of the server, the variable of the agent that carries its value. */
  readonly carriers: Readonly<Record<string, string>>
}

/**
 * The variables of MCP servers are passed on in the agent's environment, each under a name that has no meaning to the agent itself. An
 * environment is readable by the same user only; arguments are visible to everybody in `ps`.
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
