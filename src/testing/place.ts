import type { Address } from './request.ts'
import { type ServerOptions, startServer } from './server.ts'

/** Selects the server that the tests use. */
export interface PlaceOptions extends ServerOptions {
  /** The URL of a running server. Default: `EBB_URL`. Without either, a server is started, and stopped after the tests. */
  readonly url?: string
  /** The token of the server. Default: `EBB_TOKEN`. */
  readonly token?: string
}

export interface Place {
  readonly address: Address
  /** Stops the server, if `openPlace` has started it. */
  close(): Promise<void>
}

export async function openPlace({ url, token, ...options }: PlaceOptions): Promise<Place> {
  const known = url ?? (process.env.EBB_URL || undefined)
  if (known === undefined) {
    const server = await startServer(options)
    return { address: { url: server.url, token: server.token }, close: server.stop }
  }
  return { address: { url: known, token: token ?? (process.env.EBB_TOKEN || undefined) }, close: async () => {} }
}
