import type { z } from 'zod'
import type { LaunchRequest } from '../../agents/preflight.ts'
import type { Configuration } from '../../core/ports/provider.ts'
import { read } from './route.ts'
import { launchBody } from './schemas.ts'

/** What is said about no namespace is about this one. */
export const defaultNamespace = 'default'

/** For those who launch in their own process: what they say is validated as a body of `POST /api/agents` is. */
export function readLaunch(body: unknown, namespace: string | undefined): LaunchRequest {
  return launchOf(read(launchBody, body, 'body') as z.output<typeof launchBody>, namespace)
}

/** A body that was validated, as the control plane takes it: what was not said is not there. */
export function launchOf(body: z.output<typeof launchBody>, namespace: string | undefined): LaunchRequest {
  const { configuration, ...rest } = body
  return {
    ...(compact(rest) as Omit<LaunchRequest, 'namespace' | 'configuration'>),
    namespace: body.namespace ?? namespace ?? defaultNamespace,
    configuration: compact(configuration ?? {}) as Configuration,
  }
}

function compact<T extends object>(value: T): object {
  return Object.fromEntries(Object.entries(value).filter(([, part]) => part !== undefined))
}
