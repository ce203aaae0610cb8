import { expect, it } from 'vitest'
import { mcpText } from '../../../src/agents/mcp-file.ts'

it('mcpText: lists MCP servers in the format of Claude Code, with values of variables only for the ebb server', () => {
  const servers = [
    { name: 'a', command: 'node', args: ['a.mjs'], env: { TOKEN: '$x "y"' } },
    { name: 'b', command: 'b' },
    { name: 'ebb', command: '/bin/ebb', args: ['mcp'], env: { EBB_TOKEN: 'own' }, isOurs: true },
    { name: 'far', command: 'https://example.test/mcp', transport: 'http' },
  ]
  expect(JSON.parse(mcpText(servers))).toEqual({
    mcpServers: {
      a: { type: 'stdio', command: 'node', args: ['a.mjs'], env: { TOKEN: `\${AGENT_MCP_0_0}` } },
      b: { type: 'stdio', command: 'b', args: [], env: {} },
      ebb: { type: 'stdio', command: '/bin/ebb', args: ['mcp'], env: { EBB_TOKEN: 'own' } },
      far: { type: 'http', url: 'https://example.test/mcp' },
    },
  })
})
