import type { Config } from '../../config/config.ts'
import type { Arguments } from '../arguments.ts'
import type { Wiring } from '../command.ts'
import { configOf } from '../open.ts'
import { withStatusLine } from '../terminal/status-line.ts'
import { type Client, connectAndCheck } from './client.ts'

/** Makes calls to the running server. After a second of waiting, a status line says so. */
export function callServer<T>(args: Arguments, { clock }: Wiring, config: Config, call: (client: Client) => Promise<T>): Promise<T> {
  const isQuiet = args.switches.has('json')
  return withStatusLine(clock, isQuiet, 'waiting for the server to answer', async () => await call(await connectAndCheck(config)))
}

/** Connects to the running server, for several calls. */
export function connectToServer(args: Arguments, wiring: Wiring, config = configOf(args, wiring)): Promise<Client> {
  return callServer(args, wiring, config, async (client) => client)
}
