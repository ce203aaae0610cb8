import { carry, isRemote, type McpServer } from '../core/model/mcp.ts'

/** The name of the file that lists an agent's MCP servers for its program. It is private, and deleted with the agent. */
export const mcpName = 'mcp.json'

/** The file's text in the format of Claude Code and most other programs. `${NAME}` refers to a variable of the agent. */
export function mcpText(all: readonly McpServer[]): string {
  const entries = carry(all).servers.map(({ server, carriers }) => {
    const { name, command, args = [], env = {}, transport, isOurs } = server
    if (isRemote(server)) return [name, { type: transport, url: command }]
    const carried = Object.fromEntries(Object.entries(carriers).map(([variable, carrier]) => [variable, `\${${carrier}}`]))
    return [name, { type: 'stdio', command, args, env: isOurs ? env : carried }]
  })
  return `${JSON.stringify({ mcpServers: Object.fromEntries(entries) }, null, 2)}\n`
}
