/** The MCP servers of an agent, and how their secrets travel. */

export interface McpServer {
  readonly name: string
  readonly command: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly transport?: string
  /** It is Ebb itself: the values are the agent's own token and our address, and may stand in the agent's file. */
  readonly isOurs?: boolean
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
