import { isAwsTrouble } from './aws.ts'
import { problemOf } from './problem.ts'

/**
 * Credentials that AWS does not accept are looked for anew, where the SDK found them. By itself it keeps those of a profile for as
 * long as the process lives: whoever renewed them there would be told for ever that they have expired. A call that was refused
 * for them was not carried out, so it is made once more when others are found.
 */

interface Identity {
  readonly accessKeyId: string
  readonly sessionToken?: string
}

type Handler = (args: never) => Promise<unknown>

/** As much of a client of the SDK as this needs. */
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
        const found = await credentials({ forceRefresh: true }).catch(() => used)
        if (!found || isSame(found, used)) throw error
        return await next(args)
      }
    }
  }
  // The first step: the credentials of a call are chosen in the second.
  client.middlewareStack.add(middleware, { step: 'initialize', name: 'renewing' })
  return client
}

function isSame(one: Identity, other: Identity | undefined): boolean {
  return one.accessKeyId === other?.accessKeyId && one.sessionToken === other.sessionToken
}
