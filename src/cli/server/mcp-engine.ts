import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import type { Config } from '../../config/config.ts'
import { type RunningServer, startServer } from '../../server/http/server.ts'
import type { Asking } from '../../server/mcp/asking.ts'
import { createMcpServer } from '../../server/mcp/server.ts'
import { ClientStdio } from '../../server/mcp/stdio.ts'
import { structuredLog } from '../../server/structured-log.ts'
import { callbackTo, type Wiring } from '../command.ts'
import { workingDirectory } from '../commands/exec.ts'
import { armFailSafe } from '../exit/fail-safe.ts'
import { type Leaving, leave } from '../exit/leaving.ts'

/**
 * Runs an engine in this process for one MCP client. What the client deploys ends when the client goes away, for any reason.
 * Agents call back over HTTP, each with its own token. The server's own token is given to no one.
 */
export async function serveByEngine(config: Config, wiring: Wiring, leaving: Leaving): Promise<number> {
  const { log, logger } = structuredLog(config.logLevel)
  let server: RunningServer | undefined
  const supervisor = await wiring.compose(config, { log, callback: () => callbackTo(server, wiring) })
  const { engine } = supervisor
  const failSafe = armFailSafe(supervisor, 1)
  try {
    await engine.begin()
    engine.recover().catch((error: unknown) => log.warn('Earlier runs could not be recovered.', { error: String(error) }))
    const control = await supervisor.control()
    control.startReaper()
    const { version } = JSON.parse(readFileSync(wiring.manifest, 'utf8')) as { version: string }
    const token = randomBytes(32).toString('base64url')
    server = await startServer({
      control,
      catalogue: control.catalogue,
      settings: { host: '127.0.0.1', port: 0, token, allowHosts: [], allowOrigins: [], hasTestRoutes: false },
      logger,
      metrics: async () => ({ type: 'text/plain', text: '' }),
      containment: supervisor.containment,
      placements: supervisor.placements,
      version,
      problems: supervisor.problems,
      otherHosts: supervisor.otherHosts,
    })
    const asking: Asking = {
      caller: 'orchestrator',
      cwd: workingDirectory(),
      ...(config.namespace !== undefined && { namespace: config.namespace }),
    }
    const client = new ClientStdio(wiring.clock)
    serveStdio(() => createMcpServer({ control, version }, asking), {
      transport: client,
      onerror: (error) => log.warn('The client sent a message that is not MCP.', { error: error.message }),
    })
    // The end of the client requests the exit. A signal after that forces the running close. After a Ctrl-C, which reaches the
    // client too, its end has no further effect.
    client.gone.then(() => leaving.request())
    await leaving.requested
    return await leave(supervisor, control, server, leaving)
  } catch (error) {
    await engine.shutDown()
    await supervisor.close()
    throw error
  } finally {
    failSafe.disarm()
  }
}
