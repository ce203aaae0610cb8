import type { Arguments } from '../arguments.ts'
import type { Wiring } from '../cli.ts'
import { findServer } from '../client.ts'
import { leaveSignals } from '../leaving.ts'
import { configOf } from '../open.ts'

/** `ebb mcp`: MCP on standard input and output, for the running server, or with an engine of our own. */
export async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const config = configOf(args, wiring)
  const leaving = leaveSignals(wiring.inherited.ignored)
  const isServed = (await findServer(config)) !== undefined
  if (process.stdin.isTTY)
    process.stderr.write('ebb: this speaks MCP, a protocol for programs; an MCP client starts it by itself. Ctrl-D or Ctrl-C ends it.\n')
  if (isServed) return await (await import('../mcp-bridge.ts')).serveByBridge(config, wiring, leaving)
  return await (await import('../mcp-engine.ts')).serveByEngine(config, wiring, leaving)
}
