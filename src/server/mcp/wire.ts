/** Names that the stdio bridge and the server share. */

export const mcpPath = '/mcp'

/** The header with the working folder of the bridge's client, percent-encoded. */
export const cwdHeader = 'X-Ebb-Cwd'
