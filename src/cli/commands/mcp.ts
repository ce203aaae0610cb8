import { placementKeys } from '../../config/options.ts'
import type { Arguments } from '../arguments.ts'
import { findServer } from '../client/client.ts'
import { type CommandDefinition, serverOptions, supervising, type Wiring } from '../command.ts'
import { leaveSignals } from '../exit/leaving.ts'
import { configOf } from '../open.ts'

export const definition: CommandDefinition = {
  name: 'mcp',
  summary: 'serve MCP on standard input and output, through the running server or with an engine in this process',
  usage: 'ebb mcp [options]',
  examples: ['claude mcp add ebb -- npx ebb mcp', 'ebb mcp --url http://build.example:4400 --token "$TOKEN"'],
  options: [...serverOptions, 'namespace', 'store', ...supervising, ...placementKeys],
  switches: ['json', 'help'],
  leavesInTime: true,
  run,
}

async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const config = configOf(args, wiring)
  const leaving = leaveSignals(wiring.inherited.ignored)
  const isServed = (await findServer(config)) !== undefined
  if (process.stdin.isTTY)
    process.stderr.write(
      'ebb: "ebb mcp" is started by MCP clients, and reads their messages from standard input. Ctrl-D or Ctrl-C ends it.\n',
    )
  if (isServed) return await (await import('../server/mcp-bridge.ts')).serveByBridge(config, wiring, leaving)
  return await (await import('../server/mcp-engine.ts')).serveByEngine(config, wiring, leaving)
}
