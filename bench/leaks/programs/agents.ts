import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { type Script, startScriptedModel } from '../../../src/scripted-model/index.ts'
import type { Place } from '../place.ts'
import { environmentOf, type Prepared, type Program } from '../program.ts'
import type { AgentLaunch } from '../way.ts'

/** The real command line agents, each stopped in three situations, against a scripted model on loopback. */

const root = resolve(import.meta.dirname, '..', '..', '..')
const node = join(root, 'node_modules', 'node', 'bin', 'node')
const lingeringServer = join(import.meta.dirname, 'lingering-mcp-server.ts')

/** The environment variable with the path of the folder in which the four agent programs are installed. */
export const agentFolderVariable = 'EBB_AGENT_CLIS'
const folder = (): string => process.env[agentFolderVariable] ?? ''

interface McpServer {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
}

interface Agent {
  readonly type: string
  readonly program: string
  /** The command line of the agent, as a person writes it in a script. */
  argv(prompt: string, mcp: McpServer | undefined): readonly string[]
  /** Writes the MCP server into the agent's settings, for an agent that reads MCP servers from its settings only. */
  settings?(place: Place, mcp: McpServer): void
}

const agents: readonly Agent[] = [
  {
    type: 'claude-code',
    program: 'claude',
    argv: (prompt, mcp) => [
      ...['claude', '-p', prompt, '--output-format', 'stream-json', '--verbose', '--dangerously-skip-permissions'],
      ...(mcp ? ['--mcp-config', JSON.stringify({ mcpServers: { [mcp.name]: { command: mcp.command, args: mcp.args } } })] : []),
    ],
  },
  {
    type: 'codex',
    program: 'codex',
    argv: (prompt, mcp) => [
      ...['codex', 'exec', '--json', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox'],
      ...(mcp ? ['-c', `mcp_servers.${mcp.name}={command=${JSON.stringify(mcp.command)},args=${JSON.stringify(mcp.args)}}`] : []),
      prompt,
    ],
  },
  {
    type: 'gemini-cli',
    program: 'gemini',
    argv: (prompt) => ['gemini', '-p', prompt, '--yolo', '--output-format', 'stream-json'],
    settings: (place, { name, command, args }) =>
      change(join(place.home, '.gemini', 'settings.json'), { mcpServers: { [name]: { command, args } } }),
  },
  {
    type: 'opencode',
    program: 'opencode',
    argv: (prompt) => ['opencode', 'run', '--format', 'json', '--model', 'scripted/scripted', prompt],
    settings: (place, { name, command, args }) =>
      change(join(place.home, '.config', 'opencode', 'opencode.json'), {
        mcp: { [name]: { type: 'local', command: [command, ...args], enabled: true } },
      }),
  },
]

interface Moment {
  readonly name: string
  readonly title: string
  turns(place: Place): Turns
  readonly hasMcpServer: boolean
  /** The turn of the conversation that the agent must have requested before the stop. */
  readonly turn: number
}

/** The agent's tool creates this file when it runs. The path contains the mark, so a command that names the file carries the mark. */
const readyFile = (place: Place): string => join(place.work, 'up')
type Turns = NonNullable<Script['rules']>[number]['turns']

/** The agent's first tool call creates this file and then waits at the gate. So the next tool call begins in several agents at once. */
const waitingFile = (place: Place): string => join(place.work, 'waiting')
const atGate = (place: Place, gate: string): Turns => [{ shell: `echo up > ${waitingFile(place)}; : <${gate}` }]

const moments: readonly Moment[] = [
  {
    name: 'young-tool',
    title: 'its shell tool has just started',
    turns: (place) => [{ shell: `sh -c 'echo up > ${readyFile(place)}; sleep 300; true'` }],
    hasMcpServer: false,
    turn: 0,
  },
  {
    name: 'daemon',
    title: 'a tool has left a setsid daemon, and the model does not answer',
    turns: (place) => [
      { shell: `setsid sh -c 'echo up > ${readyFile(place)}; sleep 300; true' </dev/null >/dev/null 2>&1 &` },
      { stall: 'forever' },
    ],
    hasMcpServer: false,
    turn: 1,
  },
  {
    name: 'mcp',
    title: 'an MCP server that outlives the end of its input, and the model does not answer',
    turns: () => [{ stall: 'forever' }],
    hasMcpServer: true,
    turn: 0,
  },
]

function programOf(agent: Agent, moment: Moment): Program {
  return {
    name: `${agent.program}-${moment.name}`,
    title: `${agent.program}: ${moment.title}`,
    kind: 'agent',
    missing: () => (existsSync(join(folder(), agent.program)) ? undefined : `${agent.program} is not installed`),
    prepare: (place, gate) => prepare(agent, moment, place, gate),
  }
}

async function prepare(agent: Agent, moment: Moment, place: Place, gate?: string): Promise<Prepared> {
  const before = gate === undefined ? [] : atGate(place, gate)
  const model = await startScriptedModel({ script: { rules: [{ turns: [...before, ...moment.turns(place)] }] } })
  const readyTurn = before.length + moment.turn
  const prompt = 'Do what you are told.'
  const mcp = moment.hasMcpServer ? { name: 'lingering', command: node, args: [lingeringServer, readyFile(place)] } : undefined
  const own = await model.homeFor(agent.type, place.home)
  if (mcp) agent.settings?.(place, mcp)
  const path = [folder(), dirname(node), process.env.PATH ?? '/usr/bin:/bin'].join(':')
  return {
    launch: {
      place,
      argv: agent.argv(prompt, mcp),
      env: { ...environmentOf(place, path), ...own },
      input: 'none',
      readOnly: [root, dirname(dirname(folder()))],
      agent: agentLaunch(agent, prompt, mcp),
    },
    isAtGate: () => existsSync(waitingFile(place)),
    isReady: () =>
      existsSync(readyFile(place)) && model.requests.some(({ isAside, turn, rule }) => !isAside && rule >= 0 && turn >= readyTurn),
    [Symbol.asyncDispose]: () => model.close(),
  }
}

function agentLaunch(agent: Agent, prompt: string, mcp: McpServer | undefined): AgentLaunch {
  const configuration = mcp && !agent.settings ? { mcp: { servers: [mcp] } } : {}
  return { type: agent.type, prompt, configuration }
}

function change(file: string, more: Readonly<Record<string, unknown>>): void {
  const settings = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>
  writeFileSync(file, JSON.stringify({ ...settings, ...more }))
}

export const agentPrograms: readonly Program[] = agents.flatMap((agent) => moments.map((moment) => programOf(agent, moment)))
