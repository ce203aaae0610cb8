import type { Config } from '../config/config.ts'
import type { Arguments } from './arguments.ts'
import { type Client, greet } from './client.ts'
import type { Wiring } from './command.ts'
import { configOf } from './open.ts'
import { during } from './terminal/status-line.ts'

/** What a running server is asked; who waits for it longer than a second is told so. */
export function asking<T>(args: Arguments, { clock }: Wiring, config: Config, ask: (client: Client) => Promise<T>): Promise<T> {
  const isQuiet = args.switches.has('json')
  return during(clock, isQuiet, 'waiting for the server to answer', async () => await ask(await greet(config)))
}

/** The server itself, for more than one question. */
export function reach(args: Arguments, wiring: Wiring, config = configOf(args, wiring)): Promise<Client> {
  return asking(args, wiring, config, async (client) => client)
}
