import { AwsProblem, type AwsQueries, isAwsTrouble, type OpenUpload, type TaskSeen } from './aws.ts'
import { type ClientPool, regionOfArn } from './clients.ts'
import { taskSeen } from './effects.ts'
import { withRetries } from './patience.ts'
import { required } from './problem.ts'

/** The queries to AWS. They change nothing. */

/** The maximum number of tasks for one call of DescribeTasks or ListTasks. */
const atATime = 100

/** The deregistration delay of a target group that sets none. */
const usualDelaySeconds = 300

function chunksOf(arns: readonly string[]): readonly (readonly string[])[] {
  return Array.from({ length: Math.ceil(arns.length / atATime) }, (_, index) => arns.slice(index * atATime, (index + 1) * atATime))
}

export function awsQueries(pool: ClientPool): AwsQueries {
  return {
    describeTasks: async ({ cluster, region }, arns, call) => {
      const tasks: TaskSeen[] = []
      const missing: string[] = []
      // A call queries one region. Tasks that were launched with an earlier setting may be in another region than the current one.
      const byRegion = Map.groupBy(arns, (arn) => regionOfArn(arn) ?? region)
      const chunks = [...byRegion].flatMap(([where, all]) => chunksOf(all).map((some) => ({ where, some })))
      for (const { where, some } of chunks) {
        const { ecs, packages } = await pool.for(where)
        const command = new packages.ecs.DescribeTasksCommand({ cluster, tasks: [...some], include: ['TAGS'] })
        const answer = await withRetries('DescribeTasks', call, (abortSignal) => ecs.send(command, { abortSignal }))
        tasks.push(...(answer.tasks ?? []).map(taskSeen))
        for (const { arn = '', reason } of answer.failures ?? []) {
          if (reason !== 'MISSING') throw new AwsProblem('unreachable', `ECS could not describe ${arn}: ${reason ?? 'it gave no reason'}.`)
          missing.push(arn)
        }
        // A complete answer has a description or a failure for each task.
        const answered = (answer.tasks ?? []).length + (answer.failures ?? []).length
        required('DescribeTasks', answered >= new Set(some).size || undefined)
      }
      return { tasks, missing }
    },

    listTasks: async ({ region, ...query }, call) => {
      const { ecs, packages } = await pool.for(region)
      const arns: string[] = []
      for (let nextToken: string | undefined; ; ) {
        const command = new packages.ecs.ListTasksCommand({ ...query, maxResults: atATime, nextToken })
        const answer = await withRetries('ListTasks', call, (abortSignal) => ecs.send(command, { abortSignal }))
        arns.push(...required('ListTasks', answer.taskArns))
        nextToken = answer.nextToken
        if (nextToken === undefined || nextToken === '') return arns
      }
    },

    targetHealth: async (target, call) => {
      const { balancing, packages } = await pool.for(regionOfArn(target.group))
      const Targets = 'address' in target ? [{ Id: target.address, Port: target.port }] : undefined
      const command = new packages.balancing.DescribeTargetHealthCommand({ TargetGroupArn: target.group, Targets })
      try {
        const answer = await withRetries('DescribeTargetHealth', call, (abortSignal) => balancing.send(command, { abortSignal }))
        return required('DescribeTargetHealth', answer.TargetHealthDescriptions).map(({ Target, TargetHealth }) => {
          const reason = [TargetHealth?.Reason, TargetHealth?.Description].filter(Boolean).join(': ')
          return {
            address: Target?.Id ?? '',
            port: Target?.Port ?? 0,
            state: TargetHealth?.State ?? 'unknown',
            ...(reason !== '' && { reason }),
          }
        })
      } catch (error) {
        if (isAwsTrouble(error, 'refused') && error.code.startsWith('InvalidTarget')) return []
        throw error
      }
    },

    deregistrationDelayMs: async (group, call) => {
      const { balancing, packages } = await pool.for(regionOfArn(group))
      const command = new packages.balancing.DescribeTargetGroupAttributesCommand({ TargetGroupArn: group })
      const answer = await withRetries('DescribeTargetGroupAttributes', call, (abortSignal) => balancing.send(command, { abortSignal }))
      const seconds = answer.Attributes?.find(({ Key }) => Key === 'deregistration_delay.timeout_seconds')?.Value
      return Number(seconds ?? usualDelaySeconds) * 1_000
    },

    head: async ({ bucket, key, region }, call) => {
      const { s3, packages } = await pool.for(region)
      const command = new packages.s3.HeadObjectCommand({ Bucket: bucket, Key: key, ChecksumMode: 'ENABLED' })
      try {
        const seen = await withRetries('HeadObject', call, (abortSignal) => s3.send(command, { abortSignal }))
        const { ETag, ContentLength = 0, Metadata = {}, ChecksumSHA256 } = seen
        return {
          etag: required('HeadObject', ETag),
          sizeBytes: ContentLength,
          metadata: Metadata,
          ...(ChecksumSHA256 !== undefined && { sha256: ChecksumSHA256 }),
        }
      } catch (error) {
        if (isAwsTrouble(error, 'absent')) return undefined
        throw error
      }
    },

    listObjects: async ({ bucket, key, region }, call) => {
      const { s3, packages } = await pool.for(region)
      const keys: string[] = []
      for (let ContinuationToken: string | undefined; ; ) {
        const command = new packages.s3.ListObjectsV2Command({ Bucket: bucket, Prefix: key, ContinuationToken })
        const answer = await withRetries('ListObjectsV2', call, (abortSignal) => s3.send(command, { abortSignal }))
        required('ListObjectsV2', answer.Name)
        keys.push(...(answer.Contents ?? []).flatMap(({ Key }) => (Key === undefined ? [] : [Key])))
        ContinuationToken = answer.NextContinuationToken
        if (ContinuationToken === undefined) return keys
      }
    },

    openUploads: async ({ bucket, key, region }, call) => {
      const { s3, packages } = await pool.for(region)
      const open: OpenUpload[] = []
      for (let from: { KeyMarker?: string; UploadIdMarker?: string } = {}; ; ) {
        const command = new packages.s3.ListMultipartUploadsCommand({ Bucket: bucket, Prefix: key, ...from })
        const answer = await withRetries('ListMultipartUploads', call, (abortSignal) => s3.send(command, { abortSignal }))
        required('ListMultipartUploads', answer.Bucket)
        for (const { Key, UploadId } of answer.Uploads ?? [])
          if (Key !== undefined && UploadId !== undefined)
            open.push({ bucket, key: Key, uploadId: UploadId, ...(region !== undefined && { region }) })
        const { IsTruncated, NextKeyMarker, NextUploadIdMarker } = answer
        if (!IsTruncated || NextKeyMarker === undefined) return open
        from = { KeyMarker: NextKeyMarker, ...(NextUploadIdMarker !== undefined && { UploadIdMarker: NextUploadIdMarker }) }
      }
    },

    describeCluster: async ({ cluster, region }, call) => {
      const { ecs, packages } = await pool.for(region)
      const command = new packages.ecs.DescribeClustersCommand({ clusters: [cluster] })
      const answer = await withRetries('DescribeClusters', call, (abortSignal) => ecs.send(command, { abortSignal }))
      const [seen] = answer.clusters ?? []
      return seen && { status: seen.status ?? 'UNKNOWN' }
    },

    describeTaskDefinition: async (name, region, call) => {
      const { ecs, packages } = await pool.for(region)
      const command = new packages.ecs.DescribeTaskDefinitionCommand({ taskDefinition: name })
      const { taskDefinition } = await withRetries('DescribeTaskDefinition', call, (abortSignal) => ecs.send(command, { abortSignal }))
      return {
        status: taskDefinition?.status ?? 'UNKNOWN',
        networkMode: taskDefinition?.networkMode ?? 'unknown',
        containers: (taskDefinition?.containerDefinitions ?? []).map((container) => container.name ?? ''),
        family: taskDefinition?.family ?? '',
      }
    },

    targetType: async (group, call) => {
      const { balancing, packages } = await pool.for(regionOfArn(group))
      const command = new packages.balancing.DescribeTargetGroupsCommand({ TargetGroupArns: [group] })
      const answer = await withRetries('DescribeTargetGroups', call, (abortSignal) => balancing.send(command, { abortSignal }))
      return answer.TargetGroups?.[0]?.TargetType ?? 'unknown'
    },

    requireBucket: async (bucket, region, call) => {
      const { s3, packages } = await pool.for(region)
      const command = new packages.s3.HeadBucketCommand({ Bucket: bucket })
      await withRetries('HeadBucket', call, (abortSignal) => s3.send(command, { abortSignal }))
    },
  }
}
