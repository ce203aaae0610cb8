import type { McpServer } from '../ports/provider.ts'

/** The MCP servers of an agent as a file, with their tokens: nobody else sees it, and it goes with the agent. */
export const mcpName = 'mcp.json'

/** As claude, and most others, read it. */
export function mcpText(servers: readonly McpServer[]): string {
  const entries = servers.map(({ name, command, args = [], env = {}, transport = 'stdio' }) => [
    name,
    transport === 'stdio' ? { type: transport, command, args, env } : { type: transport, url: command },
  ])
  return `${JSON.stringify({ mcpServers: Object.fromEntries(entries) }, null, 2)}\n`
}
