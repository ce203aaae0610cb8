import type { Config } from '../../config/config.ts'
import { lineLog } from '../../core/ports/log.ts'
import { Bridge, type Far } from '../../server/mcp/bridge.ts'
import { ClientStdio } from '../../server/mcp/stdio.ts'
import { cwdHeader, mcpPath } from '../../server/mcp/wire.ts'
import { connect } from '../client/client.ts'
import type { Wiring } from '../command.ts'
import type { Leaving } from '../exit/leaving.ts'

/** Forwards MCP messages to the running server. Agents that were deployed belong to the server and stay when the client goes. */
export async function serveByBridge(config: Config, { clock }: Wiring, leaving: Leaving): Promise<number> {
  const log = lineLog(config.logLevel, (line) => process.stderr.write(line))
  const client = new ClientStdio(clock)
  const bridge = new Bridge(client, () => findEndpoint(config), log)
  await client.start()
  await Promise.race([client.gone, leaving.requested])
  await bridge.close()
  return 0
}

/** Called again after each loss of the server, because the next server may listen on another address. */
async function findEndpoint(config: Config): Promise<Far> {
  const server = await connect(config)
  const { namespace } = config
  return {
    url: new URL(mcpPath, server.url),
    headers: {
      ...server.headers,
      ...(namespace !== undefined && { 'X-Ebb-Namespace': namespace }),
      // A path of this machine means nothing on another one.
      ...(server.isLocal && { [cwdHeader]: encodeURIComponent(process.cwd()) }),
    },
  }
}
