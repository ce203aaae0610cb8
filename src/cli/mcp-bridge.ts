import type { Config } from '../config/config.ts'
import { lineLog } from '../core/ports/log.ts'
import { Bridge, type Far } from '../server/mcp/bridge.ts'
import { ClientStdio } from '../server/mcp/stdio.ts'
import { cwdHeader, mcpPath } from '../server/mcp/wire.ts'
import { connect } from './client.ts'
import type { Wiring } from './command.ts'
import type { Leaving } from './leaving.ts'

/** The running server does the work; here only words are passed on. What was deployed stays with the server. */
export async function serveByBridge(config: Config, { clock }: Wiring, leaving: Leaving): Promise<number> {
  const log = lineLog(config.logLevel, (line) => process.stderr.write(line))
  const client = new ClientStdio(clock)
  const bridge = new Bridge(client, () => find(config), log)
  await client.start()
  await Promise.race([client.gone, leaving.asked])
  await bridge.close()
  return 0
}

/** Asked anew whenever the server was lost: the next one may listen elsewhere. */
async function find(config: Config): Promise<Far> {
  const server = await connect(config)
  const { namespace } = config
  return {
    url: new URL(mcpPath, server.url),
    headers: {
      ...server.headers,
      ...(namespace !== undefined && { 'X-Ebb-Namespace': namespace }),
      // A folder of ours means nothing on another machine.
      ...(server.isLocal && { [cwdHeader]: encodeURIComponent(process.cwd()) }),
    },
  }
}
