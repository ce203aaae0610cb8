import { expect, it } from 'vitest'
import { mcpText } from '../../src/control/mcp-file.ts'

it('MCP servers are written down as claude reads them', () => {
  const servers = [
    { name: 'a', command: 'node', args: ['a.mjs'], env: { TOKEN: '$x "y"' } },
    { name: 'b', command: 'b' },
    { name: 'far', command: 'https://example.test/mcp', transport: 'http' },
  ]
  expect(JSON.parse(mcpText(servers))).toEqual({
    mcpServers: {
      a: { type: 'stdio', command: 'node', args: ['a.mjs'], env: { TOKEN: '$x "y"' } },
      b: { type: 'stdio', command: 'b', args: [], env: {} },
      far: { type: 'http', url: 'https://example.test/mcp' },
    },
  })
})
