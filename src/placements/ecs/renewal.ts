import { isAwsTrouble } from './aws.ts'
import { problemOf } from './problem.ts'

/**
 * Reads the credentials again when AWS does not accept them. The SDK keeps the credentials of a profile for the life of the process, so
 * credentials that were renewed there would never be used. A call that was refused for its credentials was not carried out, so it is
 * repeated when other credentials are found.
 */

interface Identity {
  readonly accessKeyId: string
  readonly sessionToken?: string
}

type Handler = (args: never) => Promise<unknown>

/** The parts of an SDK client that are needed here. */
interface Client {
  readonly config: { readonly credentials: (how?: Record<string, unknown>) => Promise<Identity> }
  readonly middlewareStack: { add(middleware: (next: Handler) => Handler, where: { step: 'initialize'; name: string }): void }
}

export function renewing<T extends Client>(client: T): T {
  const { credentials } = client.config
  const middleware = (next: Handler): Handler => {
    return async (args) => {
      let used: Identity | undefined
      try {
        used = await credentials()
        return await next(args)
      } catch (error) {
        if (!isAwsTrouble(problemOf('a call', error), 'credentials')) throw error
        // Swallowed: when no new credentials can be read, the original error is thrown.
        const found = await credentials({ forceRefresh: true }).catch(() => used)
        if (!found || isSame(found, used)) throw error
        return await next(args)
      }
    }
  }
  // The SDK selects the credentials of a call in its second step, so the renewal must run in the first step.
  client.middlewareStack.add(middleware, { step: 'initialize', name: 'renewing' })
  return client
}

function isSame(one: Identity, other: Identity | undefined): boolean {
  return one.accessKeyId === other?.accessKeyId && one.sessionToken === other.sessionToken
}
