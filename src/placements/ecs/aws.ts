import type { Clock } from '../../core/ports/clock.ts'

/**
 * What is asked of AWS. `Aws` changes something, one method per effect, so that the crash matrix can end the process around
 * each of them; `AwsQueries` only looks. Both throw an `AwsProblem` with a sentence that says what to do, and nothing else.
 */

/** How a call is bounded: by its caller, and by a timeout of its own. */
export interface AwsCall {
  readonly signal: AbortSignal
  readonly clock: Clock
  /**
   * It makes something: what was sent is let answer even when the caller leaves, because a request whose connection was dropped may
   * still be carried out, after somebody has looked and seen nothing. Only what was not sent yet is not sent any more.
   */
  readonly letsAnswer?: true
}

/**
 * `absent`: the API says that there is no such thing. `taken`: a condition of a write did not hold. `refused`: the request itself is
 * not acceptable. All others say nothing about the thing that was asked for (G4).
 */
export type AwsTrouble = 'absent' | 'taken' | 'refused' | 'denied' | 'credentials' | 'throttled' | 'unreachable' | 'aborted'

export class AwsProblem extends Error {
  override readonly name = 'AwsProblem'
  readonly trouble: AwsTrouble
  /** The API's own name for it. */
  readonly code: string
  /** It was the answer to the only attempt. After one whose answer was lost, the thing may have been done all the same. */
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

/** A cluster, in its region; without one, the region that the SDK finds by itself. */
export interface Cluster {
  readonly cluster: string
  readonly region?: string
}

export interface TaskOrder extends Cluster {
  readonly taskDefinition: string
  readonly subnets: readonly string[]
  readonly securityGroups: readonly string[]
  readonly assignPublicIp: boolean
  /** The same order with the same token is one task, however often it is given. */
  readonly clientToken: string
  readonly startedBy: string
  readonly tags: Readonly<Record<string, string>>
}

export interface TaskAt extends Cluster {
  readonly arn: string
}

export interface TaskSeen {
  readonly arn: string
  /** PROVISIONING, PENDING, ACTIVATING, RUNNING, DEACTIVATING, STOPPING, DEPROVISIONING, STOPPED. */
  readonly status: string
  readonly address?: string
  readonly stoppedReason?: string
  readonly tags: Readonly<Record<string, string>>
}

/** `startedBy` must be the only filter that is used (API reference of ListTasks). */
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
  /** initial, healthy, unhealthy, unused, draining, unavailable … */
  readonly state: string
  readonly reason?: string
}

/** An object in a bucket, whether it is there or not. */
export interface ObjectAt {
  readonly bucket: string
  readonly key: string
  readonly region?: string
}

export interface ObjectSeen {
  readonly etag: string
  readonly sizeBytes: number
  readonly metadata: Readonly<Record<string, string>>
  /** Of the whole, or of the checksums of its parts; base64. */
  readonly sha256?: string
}

export interface NewObject extends ObjectAt {
  readonly metadata: Readonly<Record<string, string>>
  /** Only in the place of this one; without it, only where there is none. */
  readonly replaces?: string
}

export interface OpenUpload extends ObjectAt {
  readonly uploadId: string
}

export interface Aws {
  /** Answers with the task that the order's token stands for, also when an earlier reply was lost. */
  runTask(order: TaskOrder, call: AwsCall): Promise<TaskSeen>
  /** Of a task that is stopped already, or long forgotten: nothing. */
  stopTask(task: TaskAt, reason: string, call: AwsCall): Promise<void>
  registerTarget(target: Target, call: AwsCall): Promise<void>
  /** Of a target that is not registered: nothing. */
  deregisterTarget(target: Target, call: AwsCall): Promise<void>
  /** `taken` where the condition does not hold. */
  putLease(object: NewObject, body: string, call: AwsCall): Promise<void>
  /** Only this very one; `taken` where another is there by now. */
  deleteLease(object: ObjectAt, etag: string, call: AwsCall): Promise<void>
  /** A file, in parts where it is large. `taken` where the condition does not hold. */
  upload(object: NewObject, file: string, call: AwsCall): Promise<void>
  /** Of parts that are gone already: nothing. */
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
  /** `missing` are those of which the API says that it knows none. */
  describeTasks(
    cluster: Cluster,
    arns: readonly string[],
    call: AwsCall,
  ): Promise<{ readonly tasks: readonly TaskSeen[]; readonly missing: readonly string[] }>
  listTasks(query: TaskQuery, call: AwsCall): Promise<readonly string[]>
  /** One target, or all of a group. A target that is not registered is not there, or `unused` because of that. */
  targetHealth(target: Pick<Target, 'group'> | Target, call: AwsCall): Promise<readonly TargetSeen[]>
  deregistrationDelayMs(group: string, call: AwsCall): Promise<number>
  head(object: ObjectAt, call: AwsCall): Promise<ObjectSeen | undefined>
  /** Keys that begin so. */
  listObjects(prefix: ObjectAt, call: AwsCall): Promise<readonly string[]>
  openUploads(prefix: ObjectAt, call: AwsCall): Promise<readonly OpenUpload[]>
  describeCluster(cluster: Cluster, call: AwsCall): Promise<ClusterSeen | undefined>
  describeTaskDefinition(name: string, region: string | undefined, call: AwsCall): Promise<TaskDefinitionSeen>
  targetType(group: string, call: AwsCall): Promise<string>
  requireBucket(bucket: string, region: string | undefined, call: AwsCall): Promise<void>
}

/** In what parts a file is uploaded: the checksum of a large object is one of the checksums of its parts. */
export const partBytes = 8 * 1_024 * 1_024
