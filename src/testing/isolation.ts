import { clientOf, type Target } from './request.ts'
import { issuesOf, look } from './world.ts'

/** Throws, naming each thing, unless the world is clean: no agent, message, process, subscription or leak. */
export async function verifyTestIsolation(target: Target): Promise<void> {
  const client = clientOf(target)
  const world = await look(client)
  if (world.status.isClean) return
  throw new Error(`Test isolation violated: ${(await issuesOf(client, world)).join('; ')}.`)
}
