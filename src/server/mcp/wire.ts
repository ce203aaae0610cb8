/** What a bridge and the server it speaks to agree on. */

export const mcpPath = '/mcp'

/** Which folder the bridge's client works in; percent-encoded. */
export const cwdHeader = 'X-Ebb-Cwd'
