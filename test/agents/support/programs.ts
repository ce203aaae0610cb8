import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach } from 'vitest'

/** The four real programs: how each is told its MCP servers, and the words of `ebb exec` around it. */

export const agentTypes = ['claude-code', 'codex', 'gemini-cli', 'opencode'] as const
export type AgentType = (typeof agentTypes)[number]

export interface McpServer {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
}

export interface AgentProgram {
  /** As its own manual says it is run in a script: none of it comes from the provider. */
  readonly words: (prompt: string) => readonly string[]
  /** Its MCP servers without Ebb: more words, or files in its home. */
  readonly tell: (home: string, servers: readonly McpServer[]) => readonly string[]
  /** Ebb cannot tell it its MCP servers. */
  readonly hasOwnServersOnly?: true
  /** What it calls the tool of the server that lingers, where it does not offer it before it is asked for. */
  readonly repeat?: string
  /** What it leaves in its home when it is killed and nobody looks after it. */
  readonly traces: readonly { readonly folder: string; readonly name: RegExp }[]
}

export const programs: Readonly<Record<AgentType, AgentProgram>> = {
  'claude-code': {
    words: (prompt) => ['claude', '--print', prompt, '--output-format=stream-json', '--verbose', '--dangerously-skip-permissions'],
    tell: (home, servers) => {
      const file = join(home, 'mcp.json')
      writeFileSync(file, JSON.stringify({ mcpServers: byName(servers, ({ command, args }) => ({ command, args })) }))
      return ['--mcp-config', file]
    },
    repeat: 'mcp__lingers__repeat',
    traces: [
      { folder: '.claude/shell-snapshots', name: /\.sh$/ },
      { folder: '.claude/sessions', name: /^\d+\./ },
    ],
  },
  codex: {
    words: (prompt) => ['codex', 'exec', '--json', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', prompt],
    // It gives them an environment of its own choice: they have no cookie, and only the containment knows whose they are.
    tell: (home, servers) => {
      const tables = servers.map(
        ({ name, command, args }) => `[mcp_servers.${name}]\ncommand = ${JSON.stringify(command)}\nargs = ${JSON.stringify(args)}\n`,
      )
      appendFileSync(join(home, '.codex', 'config.toml'), `\n${tables.join('\n')}`)
      return []
    },
    traces: [{ folder: '.codex/shell_snapshots', name: /\.sh$/ }],
  },
  'gemini-cli': {
    words: (prompt) => ['gemini', '--prompt', prompt, '--yolo', '--output-format=stream-json'],
    tell: (home, servers) => {
      const mcpServers = byName(servers, ({ command, args }) => ({ command, args, trust: true }))
      addToJson(join(home, '.gemini', 'settings.json'), { mcpServers })
      return []
    },
    hasOwnServersOnly: true,
    traces: [],
  },
  opencode: {
    words: (prompt) => ['opencode', 'run', '--format=json', prompt],
    tell: (home, servers) => {
      const mcp = byName(servers, ({ command, args }) => ({ type: 'local', command: [command, ...args], enabled: true }))
      addToJson(join(home, '.config', 'opencode', 'opencode.json'), { mcp })
      return []
    },
    traces: [],
  },
}

function byName(servers: readonly McpServer[], entry: (server: McpServer) => object): object {
  return Object.fromEntries(servers.map((server) => [server.name, entry(server)]))
}

function addToJson(file: string, more: object): void {
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), ...more }))
}

/** Where they are, by who installed them; nobody else's `claude` is ever run. */
export const clis = process.env.EBB_AGENT_CLIS ?? ''
if (clis === '') throw new Error('This suite needs the real agents; run it with "npm run test:agents -- FILES".')

const versions = JSON.parse(process.env.EBB_AGENT_VERSIONS ?? '{}') as Readonly<Record<string, string>>

/** For the suite it is called in. */
export function needsAgent(type: AgentType): void {
  beforeEach((context) => {
    if (versions[type] === undefined) context.skip(`${type} could not be installed`)
  })
}

/** Words of the person who runs the suite, by which an agent would find another model, or know that it runs in another agent. */
const personal = /^(ANTHROPIC|CLAUDE|OPENAI|CODEX|GEMINI|GOOGLE|OPENCODE|VITEST|NODE_ENV|NODE_OPTIONS|XDG_|HTTPS?_PROXY|https?_proxy)/

/** For `startEbb`, which adds it to our own environment. */
export function impersonal(): Record<string, undefined> {
  return Object.fromEntries(
    Object.keys(process.env)
      .filter((name) => personal.test(name))
      .map((name) => [name, undefined]),
  )
}
