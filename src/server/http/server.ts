import { hostname } from 'node:os'
import type { FastifyBaseLogger } from 'fastify'
import type { Control } from '../../control.ts'
import { EbbError } from '../../core/model/errors.ts'
import type { OtherHost } from '../../core/ports/placement.ts'
import type { ProviderCatalogue } from '../../core/ports/provider.ts'
import { Connections } from '../runner/connections.ts'
import { RunnerHost } from '../runner/host.ts'
import { SocketInterface } from '../socket/socket.ts'
import { Access, bracketed, isLoopback } from './access.ts'
import { createApp } from './app.ts'
import { listen } from './listen.ts'
import { McpEndpointRoutes } from './mcp-endpoint-routes.ts'

export interface ServerSettings {
  readonly host: string
  readonly port: number
  readonly token: string | undefined
  readonly allowHosts: readonly string[]
  readonly allowOrigins: readonly string[]
  readonly hasTestRoutes: boolean
  /** True when other control planes may run agents on this host. */
  readonly isRunner?: boolean
}

export interface ServerDeps {
  readonly control: Control
  readonly catalogue: ProviderCatalogue
  readonly settings: ServerSettings
  readonly logger: FastifyBaseLogger
  readonly metrics: () => Promise<{ readonly type: string; readonly text: string }>
  readonly containment: string
  /** The placements that can be used with the server's settings. */
  readonly placements: readonly string[]
  readonly version: string
  readonly problems: () => readonly string[]
  readonly otherHosts: () => Promise<readonly OtherHost[]>
  /** The folder with the built dashboard. */
  readonly dashboard?: string
}

export interface RunningServer {
  readonly url: string
  close(): Promise<void>
}

/** Throws when the server would listen for other machines without a token. It is called before the server opens anything. */
export function requireSafe({ host, token }: Pick<ServerSettings, 'host' | 'token'>): void {
  if (isLoopback(host) || token !== undefined) return
  throw new EbbError('bad_usage', `Listening on ${host} lets other machines in; give a --token, or listen on 127.0.0.1.`)
}

export function urlOf(host: string, port: number): string {
  return `http://${bracketed(host)}:${port}`
}

/** How long running requests may take at shutdown before their connections are closed. */
const goodbyeMs = 500

/** Starts HTTP and Socket.IO on one port. */
export async function startServer(deps: ServerDeps): Promise<RunningServer> {
  const { control, settings } = deps
  requireSafe(settings)
  const { host, allowHosts, allowOrigins, token } = settings
  const access = new Access({ host, allowHosts, allowOrigins, token })
  let port = settings.port
  const { clock, host: machine } = control
  const mcp = new McpEndpointRoutes({ control, access, version: deps.version })
  const runner = settings.isRunner ? new RunnerHost(control) : undefined
  const app = createApp({
    control,
    catalogue: deps.catalogue,
    access,
    vitals: {
      instanceId: machine.incarnationId,
      startedAt: clock.wall(),
      containment: deps.containment,
      version: deps.version,
      hostName: hostname(),
      placements: deps.placements,
      hasTestRoutes: settings.hasTestRoutes,
      isRunner: runner !== undefined,
      port: () => port,
      problems: deps.problems,
      otherHosts: deps.otherHosts,
    },
    hasTestRoutes: settings.hasTestRoutes,
    version: deps.version,
    logger: deps.logger,
    metrics: deps.metrics,
    mcp,
    ...(deps.dashboard !== undefined && { dashboard: deps.dashboard }),
    ...(runner && { runner: { host: runner, clock, connections: new Connections(clock) } }),
  })
  const sockets = new SocketInterface(app.server, control, access)
  const listening = await listen(app, host, port)
  port = listening.port
  return {
    url: urlOf(host, port),
    close: async () => {
      const closed = new AbortController()
      clock.after(goodbyeMs, closed.signal, () => app.server.closeAllConnections())
      await mcp.close()
      runner?.close()
      // `sockets.close` waits for every connection, also for one whose request is not complete.
      await sockets.close()
      closed.abort()
      await listening.close()
    },
  }
}
