import type { Cluster } from './aws.ts'

/** What the placement `ecs` plans, as the ledger holds it: enough to find each thing again, wherever the settings point by then. */

export const leaseLabel = 'lease'
export const targetLabel = 'target'
export const uploadLabel = 'upload'

/** The task definition of which tasks are run, and where. */
export interface Family extends Cluster {
  readonly taskDefinition: string
}

export interface TaskSpec extends Family {
  readonly installation: string
  readonly subnets: readonly string[]
  readonly securityGroups: readonly string[]
  readonly assignPublicIp: boolean
  /** Of one that was found, and is on no books. */
  readonly arn?: string
}

/** Where leases and results are kept. */
export interface BucketPlace {
  readonly bucket: string
  readonly prefix: string
  readonly region?: string
}

export interface LeaseSpec extends BucketPlace {
  readonly installation: string
  /** Of one that was found, and is on no books. */
  readonly address?: string
}

export interface TargetSpec extends Family {
  readonly installation: string
  readonly group: string
  readonly port: number
  /** Where the leases are, if there are any. */
  readonly leases?: BucketPlace
  /** Of one that was found, and is on no books. */
  readonly address?: string
}

export interface UploadSpec extends BucketPlace {
  readonly installation: string
}
