import type { Arguments } from '../arguments.ts'
import { reach } from '../asking.ts'
import type { Wiring } from '../cli.ts'
import { type Done, withEach } from '../each-agent.ts'

/** `ebb rm ID…`: ended, proven, and everything of it deleted: row, messages and archive. */
export async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const client = await reach(args, wiring)
  const force = args.switches.has('force') ? '?force=true' : ''
  const remove = async (id: string): Promise<Done> => {
    await client.delete(`/agents/${id}${force}`)
    return { said: `${id} deleted`, facts: { agentId: id, deleted: true } }
  }
  return await withEach(args, wiring, client, { doing: 'deleting', act: remove })
}
