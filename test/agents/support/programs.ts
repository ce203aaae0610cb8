import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach } from 'vitest'

/** The four real programs: how to configure MCP servers for each, and its command for `ebb exec`. */

export const agentTypes = ['claude-code', 'codex', 'gemini-cli', 'opencode'] as const
export type AgentType = (typeof agentTypes)[number]

export interface McpServer {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
}

export interface AgentProgram {
  /** The command from the program's own manual for use in scripts. No part of the command comes from Ebb's provider. */
  readonly words: (prompt: string) => readonly string[]
  /** Configures the program's MCP servers without Ebb. Returns further arguments, or writes files in the program's home. */
  readonly configureMcp: (home: string, servers: readonly McpServer[]) => readonly string[]
  /** Set when Ebb cannot configure the MCP servers of the program. */
  readonly hasOwnServersOnly?: true
  /** The name of the tool of the server `lingers`, for programs that do not list the tool at the start. */
  readonly repeat?: string
  /** Files that the program leaves in its home when it is killed and no supervisor cleans up. */
  readonly leftovers: readonly { readonly folder: string; readonly name: RegExp }[]
}

export const programs: Readonly<Record<AgentType, AgentProgram>> = {
  'claude-code': {
    words: (prompt) => ['claude', '--print', prompt, '--output-format=stream-json', '--verbose', '--dangerously-skip-permissions'],
    configureMcp: (home, servers) => {
      const file = join(home, 'mcp.json')
      writeFileSync(file, JSON.stringify({ mcpServers: byName(servers, ({ command, args }) => ({ command, args })) }))
      return ['--mcp-config', file]
    },
    repeat: 'mcp__lingers__repeat',
    leftovers: [
      { folder: '.claude/shell-snapshots', name: /\.sh$/ },
      { folder: '.claude/sessions', name: /^\d+\./ },
    ],
  },
  codex: {
    words: (prompt) => ['codex', 'exec', '--json', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', prompt],
    // codex gives MCP servers an environment of its own: they have no environment tag, so only the containment can attribute them.
    configureMcp: (home, servers) => {
      const tables = servers.map(
        ({ name, command, args }) => `[mcp_servers.${name}]\ncommand = ${JSON.stringify(command)}\nargs = ${JSON.stringify(args)}\n`,
      )
      appendFileSync(join(home, '.codex', 'config.toml'), `\n${tables.join('\n')}`)
      return []
    },
    leftovers: [{ folder: '.codex/shell_snapshots', name: /\.sh$/ }],
  },
  'gemini-cli': {
    words: (prompt) => ['gemini', '--prompt', prompt, '--yolo', '--output-format=stream-json'],
    configureMcp: (home, servers) => {
      const mcpServers = byName(servers, ({ command, args }) => ({ command, args, trust: true }))
      addToJson(join(home, '.gemini', 'settings.json'), { mcpServers })
      return []
    },
    hasOwnServersOnly: true,
    leftovers: [],
  },
  opencode: {
    words: (prompt) => ['opencode', 'run', '--format=json', prompt],
    configureMcp: (home, servers) => {
      const mcp = byName(servers, ({ command, args }) => ({ type: 'local', command: [command, ...args], enabled: true }))
      addToJson(join(home, '.config', 'opencode', 'opencode.json'), { mcp })
      return []
    },
    leftovers: [],
  },
}

function byName(servers: readonly McpServer[], entry: (server: McpServer) => object): object {
  return Object.fromEntries(servers.map((server) => [server.name, entry(server)]))
}

function addToJson(file: string, more: object): void {
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), ...more }))
}

/** The folder of the installed programs, from the environment. No other `claude` is ever run. */
export const clis = process.env.EBB_AGENT_CLIS ?? ''
if (clis === '') throw new Error('This suite needs the real agents; run it with "npm run test:agents -- FILES".')

const versions = JSON.parse(process.env.EBB_AGENT_VERSIONS ?? '{}') as Readonly<Record<string, string>>

/** Skips the tests of the current suite when the program could not be installed. */
export function needsAgent(type: AgentType): void {
  beforeEach((context) => {
    if (versions[type] === undefined) context.skip(`${type} could not be installed`)
  })
}

/** Variables of the user who runs the suite by which an agent would find another model, or detect that it runs inside an agent. */
const personal = /^(ANTHROPIC|CLAUDE|OPENAI|CODEX|GEMINI|GOOGLE|OPENCODE|VITEST|NODE_ENV|NODE_OPTIONS|XDG_|HTTPS?_PROXY|https?_proxy)/

/** Environment changes for `startEbb`: each variable in `personal` is undefined, so that the started `ebb` does not inherit it. */
export function impersonal(): Record<string, undefined> {
  return Object.fromEntries(
    Object.keys(process.env)
      .filter((name) => personal.test(name))
      .map((name) => [name, undefined]),
  )
}
