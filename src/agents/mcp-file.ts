import { carry, isRemote, type McpServer } from '../core/model/mcp.ts'

/** The MCP servers of an agent as a file, for its program: nobody else sees it, and it goes with the agent. */
export const mcpName = 'mcp.json'

/** As claude, and most others, read it: `${NAME}` is a variable of the agent. */
export function mcpText(all: readonly McpServer[]): string {
  const entries = carry(all).servers.map(({ server, carriers }) => {
    const { name, command, args = [], env = {}, transport, isOurs } = server
    if (isRemote(server)) return [name, { type: transport, url: command }]
    const carried = Object.fromEntries(Object.entries(carriers).map(([variable, carrier]) => [variable, `\${${carrier}}`]))
    return [name, { type: 'stdio', command, args, env: isOurs ? env : carried }]
  })
  return `${JSON.stringify({ mcpServers: Object.fromEntries(entries) }, null, 2)}\n`
}
