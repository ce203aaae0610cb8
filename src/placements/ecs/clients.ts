import type { ECSClient } from '@aws-sdk/client-ecs'
import type { ElasticLoadBalancingV2Client } from '@aws-sdk/client-elastic-load-balancing-v2'
import type { S3Client } from '@aws-sdk/client-s3'
import { type AwsPackages, loadPackages } from './packages.ts'
import { renewing } from './renewal.ts'

/** The clients of the AWS SDK, created on first use, one set per region: a resource stays in the region in which it was created. */

export interface ClientSettings {
  /** The region of resources that have no region of their own. */
  readonly region?: string
  readonly endpoint?: string
}

export interface Clients {
  readonly packages: AwsPackages
  readonly ecs: ECSClient
  readonly balancing: ElasticLoadBalancingV2Client
  readonly s3: S3Client
  /** A client that is used only for the uploads of large files. */
  readonly transfers: S3Client
}

/**
 * The maximum number of connections of a client: enough for a hundred agents that end at the same time, within a limit of 1024 open files.
 */
const mostSockets = 64

/**
 * The number of attempts for one part of an upload. The SDK retries a single part, so that a lost part does not restart the whole upload.
 */
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
    // A failed load is retried by the next call, which finds packages that were installed in the meantime.
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
      // The SDK makes one attempt, because patience.ts makes the retries.
      maxAttempts: 1,
      // The SDK passes `ignoreCache` on to its credential providers. Without this option, the SDK reads a credentials file only once
      // (renewal.ts).
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

/** The region of a resource from its ARN (`arn:aws:ecs:REGION:ACCOUNT:…`). It holds even after the setting has changed. */
export function regionOfArn(arn: string): string | undefined {
  return /^arn:[^:]+:[^:]+:([^:]+):/.exec(arn)?.[1]
}
