import type { Clock } from '../../core/ports/clock.ts'

/**
 * Calls to AWS. `Aws` has the calls that change something, one method per effect, so that the crash matrix can end the process around each
 * of them. `AwsQueries` has the calls that only read. Both throw only `AwsProblem`, with a message that says what to do.
 */

/** The limits of a call: the caller's signal, and a timeout on the clock. */
export interface AwsCall {
  readonly signal: AbortSignal
  readonly clock: Clock
  /**
   * True for a call that creates a resource. Once the call is sent, its answer is awaited even after the caller has aborted: AWS may still
   * carry out a request whose connection was dropped, after an observation has found nothing. Only an attempt that is not sent yet is
   * dropped.
   */
  readonly letsAnswer?: true
}

/**
 * What went wrong with a call. `absent`: the API says that the resource does not exist. `taken`: a condition of a write was not met.
 * `refused`: AWS does not accept the request. All others leave the state of the resource unknown (G4).
 */
export type AwsTrouble = 'absent' | 'taken' | 'refused' | 'denied' | 'credentials' | 'throttled' | 'unreachable' | 'aborted'

export class AwsProblem extends Error {
  override readonly name = 'AwsProblem'
  readonly trouble: AwsTrouble
  /** The API's own error code. */
  readonly code: string
  /**
   * True when the error is the answer to the only attempt. False after an attempt whose answer was lost: AWS may have carried out that one.
   */
  isCertain = true

  constructor(trouble: AwsTrouble, message: string, options: { code?: string; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.trouble = trouble
    this.code = options.code ?? ''
  }
}

export function isAwsTrouble(error: unknown, ...troubles: readonly AwsTrouble[]): error is AwsProblem {
  return error instanceof AwsProblem && troubles.includes(error.trouble)
}

/** A cluster and its region. Without a region, the SDK finds one by itself. */
export interface Cluster {
  readonly cluster: string
  readonly region?: string
}

export interface TaskOrder extends Cluster {
  readonly taskDefinition: string
  readonly subnets: readonly string[]
  readonly securityGroups: readonly string[]
  readonly assignPublicIp: boolean
  /** Orders with the same token start one task, however often they are sent. */
  readonly clientToken: string
  readonly startedBy: string
  readonly tags: Readonly<Record<string, string>>
}

export interface TaskAt extends Cluster {
  readonly arn: string
}

export interface TaskSeen {
  readonly arn: string
  /** The status of the task: PROVISIONING, PENDING, ACTIVATING, RUNNING, DEACTIVATING, STOPPING, DEPROVISIONING or STOPPED. */
  readonly status: string
  readonly address?: string
  readonly stoppedReason?: string
  readonly tags: Readonly<Record<string, string>>
}

/** `startedBy` cannot be combined with another filter (API reference of ListTasks). */
export type TaskQuery = Cluster &
  ({ readonly startedBy: string } | { readonly family?: string; readonly desiredStatus: 'RUNNING' | 'STOPPED' })

export interface Target {
  readonly group: string
  readonly address: string
  readonly port: number
}

export interface TargetSeen {
  readonly address: string
  readonly port: number
  /** The state of the target as the load balancer names it, such as initial, healthy, unhealthy, unused, draining or unavailable. */
  readonly state: string
  readonly reason?: string
}

/** The address of an object, whether or not it exists. */
export interface ObjectAt {
  readonly bucket: string
  readonly key: string
  readonly region?: string
}

export interface ObjectSeen {
  readonly etag: string
  readonly sizeBytes: number
  readonly metadata: Readonly<Record<string, string>>
  /** The SHA-256 of the object in Base64. For an object that was uploaded in parts: the checksum of the checksums of its parts. */
  readonly sha256?: string
}

export interface NewObject extends ObjectAt {
  readonly metadata: Readonly<Record<string, string>>
  /** The etag of the object that may be replaced. Without it, the object must not exist. */
  readonly replaces?: string
}

export interface OpenUpload extends ObjectAt {
  readonly uploadId: string
}

export interface Aws {
  /** Starts a task. An order whose token was sent before returns the task of the earlier order, whose reply may have been lost. */
  runTask(order: TaskOrder, call: AwsCall): Promise<TaskSeen>
  /** Stops a task. Has no effect when the task is stopped already, or no longer known. */
  stopTask(task: TaskAt, reason: string, call: AwsCall): Promise<void>
  registerTarget(target: Target, call: AwsCall): Promise<void>
  /** Deregisters a target. Has no effect when the target is not registered. */
  deregisterTarget(target: Target, call: AwsCall): Promise<void>
  /** Writes the object of a lease. Fails with `taken` when the condition on the existing object does not hold. */
  putLease(object: NewObject, body: string, call: AwsCall): Promise<void>
  /** Deletes only the object with this etag. Fails with `taken` when another one has replaced it. */
  deleteLease(object: ObjectAt, etag: string, call: AwsCall): Promise<void>
  /** Uploads a file, in parts when it is large. Fails with `taken` when the condition on the existing object does not hold. */
  upload(object: NewObject, file: string, call: AwsCall): Promise<void>
  /** Aborts an upload and removes its parts. Has no effect when the parts are gone already. */
  abortUpload(upload: OpenUpload, call: AwsCall): Promise<void>
}

export interface ClusterSeen {
  readonly status: string
}

export interface TaskDefinitionSeen {
  readonly status: string
  readonly networkMode: string
  readonly containers: readonly string[]
  readonly family: string
}

export interface AwsQueries {
  /** `missing` are the tasks that the API says it does not know. */
  describeTasks(
    cluster: Cluster,
    arns: readonly string[],
    call: AwsCall,
  ): Promise<{ readonly tasks: readonly TaskSeen[]; readonly missing: readonly string[] }>
  listTasks(query: TaskQuery, call: AwsCall): Promise<readonly string[]>
  /** One target, or all targets of a group. A target that is not registered is missing from the answer, or is `unused` for that reason. */
  targetHealth(target: Pick<Target, 'group'> | Target, call: AwsCall): Promise<readonly TargetSeen[]>
  deregistrationDelayMs(group: string, call: AwsCall): Promise<number>
  head(object: ObjectAt, call: AwsCall): Promise<ObjectSeen | undefined>
  /** Lists the keys of a bucket that begin with the given key. */
  listObjects(prefix: ObjectAt, call: AwsCall): Promise<readonly string[]>
  openUploads(prefix: ObjectAt, call: AwsCall): Promise<readonly OpenUpload[]>
  describeCluster(cluster: Cluster, call: AwsCall): Promise<ClusterSeen | undefined>
  describeTaskDefinition(name: string, region: string | undefined, call: AwsCall): Promise<TaskDefinitionSeen>
  targetType(group: string, call: AwsCall): Promise<string>
  requireBucket(bucket: string, region: string | undefined, call: AwsCall): Promise<void>
}

/** The size of the parts of an upload. It determines the checksum of a large object, which is a checksum of the checksums of its parts. */
export const partBytes = 8 * 1_024 * 1_024
