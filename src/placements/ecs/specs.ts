import { label } from '../../core/ports/handles.ts'
import type { Cluster } from './aws.ts'

/**
 * The resources of the placement `ecs`, in the form the ledger stores: enough to find each one again, even after the settings have changed.
 */

export const leaseLabel = label('lease')
export const targetLabel = label('target')
export const uploadLabel = label('upload')

/** The task definition from which tasks are started, and their cluster. */
export interface Family extends Cluster {
  readonly taskDefinition: string
}

export interface TaskSpec extends Family {
  readonly installation: string
  readonly subnets: readonly string[]
  readonly securityGroups: readonly string[]
  readonly assignPublicIp: boolean
  /** The ARN of a task that a listing found and the ledger does not know. Otherwise undefined. */
  readonly arn?: string
}

/** Where leases and results are stored. */
export interface BucketPlace {
  readonly bucket: string
  readonly prefix: string
  readonly region?: string
}

export interface LeaseSpec extends BucketPlace {
  readonly installation: string
  /** The address of a lease that a listing found and the ledger does not know. Otherwise undefined. */
  readonly address?: string
}

export interface TargetSpec extends Family {
  readonly installation: string
  readonly group: string
  readonly port: number
  /** Where the leases are stored. Undefined when no leases are used. */
  readonly leases?: BucketPlace
  /** The address of a target that a listing found and the ledger does not know. Otherwise undefined. */
  readonly address?: string
}

export interface UploadSpec extends BucketPlace {
  readonly installation: string
}
