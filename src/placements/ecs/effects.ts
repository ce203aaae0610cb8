import { createReadStream, statSync } from 'node:fs'
import type { Task } from '@aws-sdk/client-ecs'
import { type Aws, AwsProblem, isAwsTrouble, type NewObject, partBytes, type TaskSeen } from './aws.ts'
import { type ClientPool, regionOfArn } from './clients.ts'
import { bounded, withRetries } from './patience.ts'
import { required } from './problem.ts'
import { uploadMs } from './times.ts'

/** The calls that change something on AWS. Each may be repeated: a repetition of a completed call changes nothing. */

/** The minimum timeout of an upload. A close with less time aborts it through the signal. */
const leastUploadMs = 60_000

export function awsEffects(pool: ClientPool): Aws {
  return {
    runTask: async (order, call) => {
      const { ecs, packages } = await pool.for(order.region)
      const { subnets, securityGroups, assignPublicIp } = order
      const command = new packages.ecs.RunTaskCommand({
        cluster: order.cluster,
        taskDefinition: order.taskDefinition,
        launchType: 'FARGATE',
        count: 1,
        clientToken: order.clientToken,
        startedBy: order.startedBy,
        propagateTags: 'TASK_DEFINITION',
        enableECSManagedTags: false,
        tags: Object.entries(order.tags).map(([key, value]) => ({ key, value })),
        networkConfiguration: {
          awsvpcConfiguration: {
            subnets: [...subnets],
            securityGroups: [...securityGroups],
            assignPublicIp: assignPublicIp ? 'ENABLED' : 'DISABLED',
          },
        },
      })
      return await withRetries('RunTask', call, async (abortSignal) => {
        const { tasks = [], failures = [] } = await ecs.send(command, { abortSignal })
        const [task] = tasks
        if (task) return taskSeen(task)
        // An answer with neither a task nor a reason is not from AWS, so `required` throws.
        required('RunTask', failures[0])
        const reasons = failures.map(({ reason, detail }) => [reason, detail].filter(Boolean).join(': '))
        throw new AwsProblem('refused', `ECS started no task: ${reasons.join('; ') || 'it gave no reason'}.`)
      })
    },

    stopTask: async ({ cluster, arn, region }, reason, call) => {
      const { ecs, packages } = await pool.for(regionOfArn(arn) ?? region)
      const command = new packages.ecs.StopTaskCommand({ cluster, task: arn, reason })
      try {
        await withRetries('StopTask', call, (abortSignal) => ecs.send(command, { abortSignal }))
      } catch (error) {
        // A refusal with "not found" means that ECS does not know the task any more. The next observation checks whether the task is gone.
        if (!(isAwsTrouble(error, 'refused') && /not found/i.test(error.message))) throw error
      }
    },

    registerTarget: async ({ group, address, port }, call) => {
      const { balancing, packages } = await pool.for(regionOfArn(group))
      const Targets = [{ Id: address, Port: port }]
      const command = new packages.balancing.RegisterTargetsCommand({ TargetGroupArn: group, Targets })
      await withRetries('RegisterTargets', call, (abortSignal) => balancing.send(command, { abortSignal }))
    },

    deregisterTarget: async ({ group, address, port }, call) => {
      const { balancing, packages } = await pool.for(regionOfArn(group))
      const Targets = [{ Id: address, Port: port }]
      const command = new packages.balancing.DeregisterTargetsCommand({ TargetGroupArn: group, Targets })
      try {
        await withRetries('DeregisterTargets', call, (abortSignal) => balancing.send(command, { abortSignal }))
      } catch (error) {
        if (!(isAwsTrouble(error, 'refused') && error.code.startsWith('InvalidTarget'))) throw error
      }
    },

    putLease: async (object, Body, call) => {
      const { s3, packages } = await pool.for(object.region)
      const command = new packages.s3.PutObjectCommand({ ...written(object), Body, ContentType: 'application/json' })
      await withRetries('PutObject', call, (abortSignal) => s3.send(command, { abortSignal }))
    },

    deleteLease: async ({ bucket, key, region }, etag, call) => {
      const { s3, packages } = await pool.for(region)
      // The condition on the etag protects a lease that another host has taken over meanwhile. A store without conditional deletes refuses
      // the call, and the lease stays.
      const command = new packages.s3.DeleteObjectCommand({ Bucket: bucket, Key: key, IfMatch: etag })
      try {
        await withRetries('DeleteObject', call, (abortSignal) => s3.send(command, { abortSignal }))
      } catch (error) {
        if (!isAwsTrouble(error, 'absent')) throw error
      }
    },

    upload: async (object, file, { signal, clock }) => {
      const { transfers, packages } = await pool.for(object.region)
      const Body = createReadStream(file)
      // Errors of the file are reported to its reader. When the upload is aborted before the file is opened, there is no reader, and an
      // unhandled error event would end the process.
      Body.on('error', () => {})
      try {
        const budgetMs = leastUploadMs + uploadMs(statSync(file).size)
        await bounded('the upload', clock, signal, budgetMs, async (aborted) => {
          const params = { ...written(object), Body, ContentType: 'text/plain; charset=utf-8', ChecksumAlgorithm: 'SHA256' as const }
          const upload = new packages.storage.Upload({ client: transfers, params, partSize: partBytes, queueSize: 4 })
          // Swallowed: the release of the upload aborts open parts again, and verifies that no part is left.
          aborted.addEventListener('abort', () => void upload.abort().catch(() => {}), { once: true })
          await upload.done()
        })
      } finally {
        Body.destroy()
      }
    },

    abortUpload: async ({ bucket, key, region, uploadId }, call) => {
      const { s3, packages } = await pool.for(region)
      const command = new packages.s3.AbortMultipartUploadCommand({ Bucket: bucket, Key: key, UploadId: uploadId })
      try {
        await withRetries('AbortMultipartUpload', call, (abortSignal) => s3.send(command, { abortSignal }))
      } catch (error) {
        if (!isAwsTrouble(error, 'absent')) throw error
      }
    },
  }
}

function written({ bucket, key, metadata, replaces }: NewObject): {
  Bucket: string
  Key: string
  Metadata: Record<string, string>
  IfMatch?: string
  IfNoneMatch?: string
} {
  const condition = replaces === undefined ? { IfNoneMatch: '*' } : { IfMatch: replaces }
  return { Bucket: bucket, Key: key, Metadata: { ...metadata }, ...condition }
}

export function taskSeen(task: Task): TaskSeen {
  const address = addressOf(task)
  return {
    arn: task.taskArn ?? '',
    status: task.lastStatus ?? 'UNKNOWN',
    ...(address !== undefined && { address }),
    ...(task.stoppedReason !== undefined && { stoppedReason: task.stoppedReason }),
    tags: Object.fromEntries((task.tags ?? []).map(({ key = '', value = '' }) => [key, value])),
  }
}

/** With awsvpc a task has one network interface. It appears in the attachments of the task before it appears in its containers. */
function addressOf({ attachments = [], containers = [] }: Task): string | undefined {
  const details = attachments.flatMap((attachment) => attachment.details ?? [])
  const attached = details.find(({ name }) => name === 'privateIPv4Address')?.value
  return attached ?? containers.flatMap(({ networkInterfaces = [] }) => networkInterfaces)[0]?.privateIpv4Address
}
