import { sentence } from '../../core/model/errors.ts'
import type { SettingCheck } from '../../core/ports/placement.ts'
import { type AwsCall, type AwsQueries, isAwsTrouble } from './aws.ts'

export interface EcsSettings {
  readonly ecsCluster: string
  readonly ecsTaskDefinition: string | undefined
  readonly ecsContainerName: string | undefined
  readonly ecsSubnets: readonly string[]
  readonly ecsSecurityGroups: readonly string[]
  readonly ecsAssignPublicIp: boolean
  readonly ecsPort: number
  readonly ecsTargetGroup: string | undefined
  readonly ecsBucket: string | undefined
  readonly ecsPrefix: string
  readonly ecsRegion: string | undefined
  readonly ecsEndpoint: string | undefined
  readonly ecsUploadDeadline: number | undefined
  /** True when a token is set. Only the runner needs the token itself. */
  readonly hasToken: boolean
}

/** Checks every setting of the placement `ecs` with calls that change nothing. */

export async function checkSettings(settings: EcsSettings, queries: AwsQueries, call: AwsCall): Promise<readonly SettingCheck[]> {
  const { ecsCluster, ecsTaskDefinition, ecsTargetGroup, ecsBucket, ecsRegion } = settings
  const checks = await Promise.all([
    tryOut('ecs.cluster', () => checkCluster(ecsCluster, ecsRegion, queries, call)),
    ecsTaskDefinition === undefined
      ? [absent('ecs.taskDefinition', 'Not set: name the task definition to run.')]
      : checkTaskDefinition(settings, ecsTaskDefinition, queries, call),
    notTried(settings),
    ecsTargetGroup === undefined
      ? note('ecs.targetGroup', 'Not set: agents are in no load balancer.')
      : tryOut('ecs.targetGroup', () => checkTargetGroup(ecsTargetGroup, queries, call)),
    ecsBucket === undefined
      ? note('ecs.bucket', 'Not set: addresses are not leased, and logs are not uploaded.')
      : tryOut('ecs.bucket', () => checkBucket(ecsBucket, ecsRegion, queries, call)),
  ])
  return checks.flat()
}

/** Settings that cannot be tried out by any read-only call, or by any that the policy in the guide allows. They are listed as not tried. */
function notTried(settings: EcsSettings): readonly SettingCheck[] {
  const { ecsSubnets, ecsSecurityGroups, ecsAssignPublicIp, ecsPort, ecsPrefix, ecsRegion, ecsEndpoint, hasToken } = settings
  return [
    ecsSubnets.length === 0
      ? absent('ecs.subnets', 'Not set: name at least one subnet for the tasks.')
      : note('ecs.subnets', `${ecsSubnets.join(', ')}: not tried; the first launch shows whether tasks may run there.`),
    note(
      'ecs.securityGroups',
      ecsSecurityGroups.length === 0
        ? 'Not set: tasks get the default group of their network; not tried.'
        : `${ecsSecurityGroups.join(', ')}: not tried; they must let this host reach port ${ecsPort}.`,
    ),
    note('ecs.assignPublicIp', ecsAssignPublicIp ? 'Tasks get a public address as well; not tried.' : 'Tasks get only a private address.'),
    note('ecs.port', `${ecsPort}: not tried, because a runner answers there only while a task runs.`),
    note('ecs.prefix', `${ecsPrefix}: not tried; leases and results are below it.`),
    note(
      'ecs.region',
      ecsRegion === undefined ? 'Not set: the SDK finds it, in AWS_REGION or a profile.' : `${ecsRegion}: all calls go there.`,
    ),
    note(
      'ecs.endpoint',
      ecsEndpoint === undefined ? 'Not set: calls go to AWS itself.' : `${ecsEndpoint}: all calls go there, and none to AWS.`,
    ),
    note('ecs.uploadDeadline', uploadDeadline(settings)),
    note(
      'ecs.token',
      hasToken
        ? 'Set; not tried, because a runner answers only while a task runs.'
        : 'Not set: a runner with an EBB_TOKEN refuses access without it, and the launch fails; set EBB_ECS_TOKEN.',
    ),
  ]
}

function uploadDeadline({ ecsUploadDeadline }: EcsSettings): string {
  if (ecsUploadDeadline === undefined) return 'Not set: only a forced close gives up an upload.'
  return `An upload that cannot be confirmed for ${ecsUploadDeadline / 1_000} s is given up.`
}

function note(setting: string, says: string): SettingCheck {
  return { setting, isGood: true, says }
}

class BadSetting extends Error {}

async function tryOut(setting: string, attempt: () => Promise<string>): Promise<SettingCheck> {
  try {
    return { setting, isGood: true, says: await attempt() }
  } catch (error) {
    return { setting, isGood: false, says: sentence(error) }
  }
}

function absent(setting: string, says: string): SettingCheck {
  return { setting, isGood: false, says }
}

async function checkCluster(cluster: string, region: string | undefined, queries: AwsQueries, call: AwsCall): Promise<string> {
  const seen = await queries.describeCluster({ cluster, ...(region !== undefined && { region }) }, call)
  if (!seen)
    throw new BadSetting(`There is no cluster ${cluster} in this account and region; create it, or correct the setting or ecs.region.`)
  if (seen.status !== 'ACTIVE')
    throw new BadSetting(`The cluster ${cluster} is ${seen.status}, so it takes no tasks; use one that is ACTIVE.`)
  return `The cluster ${cluster} is ACTIVE.`
}

async function checkTaskDefinition(
  { ecsContainerName, ecsRegion }: EcsSettings,
  name: string,
  queries: AwsQueries,
  call: AwsCall,
): Promise<readonly SettingCheck[]> {
  const seen = await queries.describeTaskDefinition(name, ecsRegion, call).catch((error: unknown) =>
    // ECS reports an unknown task definition with the generic code ClientException.
    isAwsTrouble(error, 'refused') && error.code === 'ClientException'
      ? `There is no task definition ${name} in this account and region; register it, or correct the setting or ecs.region.`
      : sentence(error),
  )
  if (typeof seen === 'string') return [absent('ecs.taskDefinition', seen)]
  const definition = tryOut('ecs.taskDefinition', async () => {
    if (seen.status !== 'ACTIVE') throw new BadSetting(`The task definition ${name} is ${seen.status}; register a new revision.`)
    if (seen.networkMode !== 'awsvpc')
      throw new BadSetting(`The task definition ${name} has the network mode ${seen.networkMode}; Fargate needs awsvpc.`)
    return `The task definition ${name} is ACTIVE.`
  })
  const container = tryOut('ecs.containerName', async () => {
    if (ecsContainerName === undefined)
      throw new BadSetting(`Name the container in which the runner answers: one of ${seen.containers.join(', ')}.`)
    if (!seen.containers.includes(ecsContainerName))
      throw new BadSetting(`The task definition ${name} has no container ${ecsContainerName}, only ${seen.containers.join(', ')}.`)
    return `The container ${ecsContainerName} is in ${name}.`
  })
  return await Promise.all([definition, container])
}

async function checkTargetGroup(group: string, queries: AwsQueries, call: AwsCall): Promise<string> {
  const type = await queries.targetType(group, call).catch((error: unknown) => {
    if (!isAwsTrouble(error, 'refused')) throw error
    throw new BadSetting(`There is no target group ${group} (${error.code}); create it, or correct the setting, which is its ARN.`)
  })
  if (type !== 'ip') throw new BadSetting(`The target group has the target type ${type}; tasks with their own address need the type ip.`)
  return 'The target group accepts IP addresses.'
}

async function checkBucket(bucket: string, region: string | undefined, queries: AwsQueries, call: AwsCall): Promise<string> {
  try {
    await queries.requireBucket(bucket, region, call)
    return `The bucket ${bucket} can be reached.`
  } catch (error) {
    if (isAwsTrouble(error, 'absent')) throw new BadSetting(`There is no bucket ${bucket}; create it, or correct the setting.`)
    // S3 answers a call to the wrong region with 301, or with 400 when the answer has no body.
    if (isAwsTrouble(error, 'refused'))
      throw new BadSetting(`The bucket ${bucket} is not in the region of the tasks; correct ecs.region, or use another bucket.`)
    throw error
  }
}
