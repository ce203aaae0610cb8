import type { ECSClient } from '@aws-sdk/client-ecs'
import type { ElasticLoadBalancingV2Client } from '@aws-sdk/client-elastic-load-balancing-v2'
import type { S3Client } from '@aws-sdk/client-s3'
import { type AwsPackages, loadPackages } from './packages.ts'
import { renewing } from './renewal.ts'

/** The SDK's clients, made on first use, one of each per region: a resource stays in the region that it was made in. */

export interface ClientSettings {
  /** Where a resource names none. */
  readonly region?: string
  readonly endpoint?: string
}

export interface Clients {
  readonly packages: AwsPackages
  readonly ecs: ECSClient
  readonly balancing: ElasticLoadBalancingV2Client
  readonly s3: S3Client
  /** For what is large. */
  readonly transfers: S3Client
}

/** Enough for a hundred agents that end together, and no more than a file limit of 1024 bears. */
const mostSockets = 64

/** A part is sent again by itself: to begin a large file anew for one lost part would be waste. */
const partAttempts = 3

export class ClientPool {
  readonly #settings: ClientSettings
  readonly #clients = new Map<string, Promise<Clients>>()

  constructor(settings: ClientSettings) {
    this.#settings = settings
  }

  for(region: string | undefined): Promise<Clients> {
    const name = region ?? this.#settings.region ?? ''
    const known = this.#clients.get(name)
    if (known) return known
    const made = this.#make(name)
    this.#clients.set(name, made)
    // Installed meanwhile: the next one finds them.
    made.catch(() => this.#clients.delete(name))
    return made
  }

  async #make(region: string): Promise<Clients> {
    const packages = await loadPackages()
    const { endpoint } = this.#settings
    const agent = { keepAlive: true, maxSockets: mostSockets, maxFreeSockets: 8 }
    const settings = {
      ...(region !== '' && { region }),
      ...(endpoint !== undefined && { endpoint }),
      // Each repetition is ours: see patience.ts.
      maxAttempts: 1,
      // Handed on to whatever finds the credentials: else a file that was read once is never read again (renewal.ts).
      ignoreCache: true,
      requestHandler: { connectionTimeout: 5_000, socketTimeout: 30_000, httpAgent: agent, httpsAgent: agent },
    }
    const s3 = { ...settings, forcePathStyle: endpoint !== undefined }
    return {
      packages,
      ecs: renewing(new packages.ecs.ECSClient(settings)),
      balancing: renewing(new packages.balancing.ElasticLoadBalancingV2Client(settings)),
      s3: renewing(new packages.s3.S3Client(s3)),
      transfers: renewing(new packages.s3.S3Client({ ...s3, maxAttempts: partAttempts })),
    }
  }
}

/** `arn:aws:ecs:REGION:ACCOUNT:…`: whatever the settings say by now, the thing is there. */
export function regionOfArn(arn: string): string | undefined {
  return /^arn:[^:]+:[^:]+:([^:]+):/.exec(arn)?.[1]
}
