import { clientOf, type Target } from './request.ts'
import { issuesOf, observe } from './world.ts'

/** Throws an error that names each thing that is left, unless the server is clean: no agent, message, process, subscription or leak. */
export async function verifyTestIsolation(target: Target): Promise<void> {
  const client = clientOf(target)
  const state = await observe(client)
  if (state.status.isClean) return
  throw new Error(`Test isolation violated: ${(await issuesOf(client, state)).join('; ')}.`)
}
