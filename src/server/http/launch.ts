import type { z } from 'zod'
import type { LaunchRequest } from '../../agents/preflight.ts'
import type { Configuration } from '../../core/ports/provider.ts'
import { read } from './route.ts'
import { launchBody } from './schemas.ts'

/** The namespace of calls that name none. */
export const defaultNamespace = 'default'

/** Validates a launch of the library or of a command without a server, like a body of `POST /api/agents`. */
export function readLaunch(body: unknown, namespace: string | undefined): LaunchRequest {
  return launchOf(read(launchBody, body, 'body') as z.output<typeof launchBody>, namespace)
}

/** Converts a validated body for the control plane. Keys with the value `undefined` are left out. */
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
