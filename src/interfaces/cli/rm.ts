import type { Arguments } from './arguments.ts'
import type { Wiring } from './cli.ts'
import { connect } from './client.ts'
import { withEach } from './each-agent.ts'
import { configOf } from './open.ts'

/** `ebb rm ID…`: ended, proven, and everything of it deleted: row, messages and archive. */
export async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const client = await connect(configOf(args, wiring))
  const force = args.switches.has('force') ? '?force=true' : ''
  return await withEach(args, client, async (id) => {
    await client.delete(`/agents/${id}${force}`)
    return { said: `${id} deleted`, facts: { agentId: id, deleted: true } }
  })
}
