import { expect, it } from 'vitest'
import { recognise } from '../../../src/doctor/judgement/agent-program.ts'

/** Command lines as in /proc, and whether each is an agent or an MCP server. */

const servers: readonly string[] = [
  'uv tool uvx mcp-server-git',
  'uvx chroma-mcp==0.2.6',
  'uvx chroma-mcp[all]>=0.2',
  'uvx --python 3.12 mcp-server-git',
  'uvx mcp-server-fetch@latest',
  'uv run --directory /x mcp-server-foo',
  'uv --directory /x run mcp-server-foo',
  'uv tool run mcp-server-foo',
  'uv run --with mcp mcp run server.py',
  'uv run -m mcp_server_time',
  'uv run python -m mcp_server_time',
  'uvx --from git+https://github.com/oraios/serena serena-mcp-server',
  'pipx run --spec mcp-server-git==1 mcp-server-git',
  'npx -y --prefix /x @modelcontextprotocol/server-github',
  'node /usr/bin/npx -y --prefix /x @modelcontextprotocol/server-github',
  'npx tsx src/mcp-server.ts',
  'node /x/node_modules/.bin/tsx --tsconfig x.json src/mcp-server.ts',
  'pnpm dlx foo-mcp',
  'python3 -u -m mcp_server_time',
  'python3 -X dev -um mcp_server_time',
  'python3 /home/me/.venv/bin/mcp-server-git',
  'bun x mcp-remote https://host/mcp',
  'bun run src/mcp.ts',
  'deno run -A npm:@modelcontextprotocol/server-everything@1.0',
  'deno run --config deno.json jsr:@x/foo-mcp',
  'java -Xmx1g -jar /x/foo-mcp.jar --port 1',
]

const others: readonly string[] = [
  'uv --directory /home/me/mcp-client run pytest',
  'uv pip install mcp-server-git',
  'uv tool install mcp-server-git',
  'npm --prefix /home/me/mcp-client run dev',
  'npm --prefix /home/me/foo-mcp run dev',
  'npm run mcp-build',
  'npm run foo-mcp',
  'npm install @modelcontextprotocol/server-github',
  'node /usr/lib/node_modules/npm/bin/npm-cli.js run foo-mcp',
  'npm -w packages/foo-mcp run dev',
  'yarn run foo-mcp',
  'pnpm run mcp',
  'bun run mcp',
  'python3 mcp_client.py',
  'python3 -m pytest mcp_server_time',
  'python3 -c mcp_server_time',
  'node mcp.test.js',
  'npx @modelcontextprotocol/inspector',
  'java -cp foo-mcp.jar Main',
  'deno run -A server.ts mcp',
]

const wordsOf = (line: string): readonly string[] => line.split(' ')

it('recognise: finds the MCP server that a launcher, an interpreter or a virtual machine runs', () => {
  for (const line of servers) expect(recognise(wordsOf(line), undefined), line).toMatchObject({ kind: 'mcp-server' })
})

it('recognise: a folder, a package script, a client and a test of an MCP server are not MCP servers', () => {
  for (const line of others) expect(recognise(wordsOf(line), undefined), line).toBeUndefined()
})

it('recognise: an agent is certain by its binary, also a wrapped one, and not certain by argv[0] alone', () => {
  expect(recognise(['claude', '-p'], '/usr/bin/claude')).toMatchObject({ kind: 'agent', name: 'claude', isCertain: true })
  expect(recognise(['/x/.claude-wrapped', '-p'], '/x/.claude-wrapped')).toMatchObject({ name: 'claude', isCertain: true })
  expect(recognise(['claude', '-p'], '/x/.claude-wrapped')).toMatchObject({ name: 'claude', isCertain: true })
  expect(recognise(['claude', '1000'], '/usr/bin/sleep')).toMatchObject({ kind: 'agent', name: 'claude', isCertain: false })
  expect(recognise(['npx', '-p', '@openai/codex', 'codex', 'exec'], undefined)).toMatchObject({ name: 'codex', isCertain: false })
  expect(recognise(['vim', 'claude'], '/usr/bin/vim')).toBeUndefined()
})
