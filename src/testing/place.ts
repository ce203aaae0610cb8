import type { Address } from './request.ts'
import { type ServerOptions, startServer } from './server.ts'

/** Which server the tests talk to. */
export interface PlaceOptions extends ServerOptions {
  /** A server that runs already; default `EBB_URL`. Without either, one is started, and ended with the tests. */
  readonly url?: string
  /** Default `EBB_TOKEN`. */
  readonly token?: string
}

export interface Place {
  readonly address: Address
  /** Ends the server, if it is ours. */
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
