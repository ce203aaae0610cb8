import { list, option, parseBase, parsePort, parseText, parseToken, toggle } from '../../config/option.ts'
import { parseDuration } from '../../core/model/duration.ts'
import { EbbError } from '../../core/model/errors.ts'
import { definePlacement } from '../definition.ts'

/** Runs every agent in a Fargate task of its own, in which a runner starts the agent. */
export const ecs = definePlacement({
  name: 'ecs',
  labels: {
    title: 'Amazon ECS',
    waitsFor: 'ECS to run the task',
    resources: {
      'ecs-task': { title: 'ECS task', endsProcesses: true, isOnOtherHost: true },
      'lb-target': { title: 'Load balancer target' },
      'address-lease': { title: 'Address lease' },
      upload: { title: 'Upload' },
    },
  },
  isRemote: true,
  options: {
    ecsCluster: option<string | undefined>('CLUSTER', 'the cluster of the placement ecs, by name or ARN', undefined, parseText),
    ecsTaskDefinition: option<string | undefined>('FAMILY[:REVISION]', 'the task definition of agents', undefined, parseText),
    ecsContainerName: option<string | undefined>(
      'NAME',
      'the container of the task definition in which the runner answers',
      undefined,
      parseText,
    ),
    ecsSubnets: list('SUBNET', 'a subnet in which tasks run'),
    ecsSecurityGroups: list('GROUP', 'a security group of the tasks'),
    ecsAssignPublicIp: toggle('give tasks a public address as well'),
    ecsPort: option('4400', 'the port on which the runner in a task answers', 4_400, parsePort),
    ecsToken: option<string | undefined>('TOKEN', 'the token that the runner in a task requires', undefined, parseToken),
    ecsTargetGroup: option<string | undefined>('ARN', 'the target group in which tasks are registered', undefined, parseText),
    ecsBucket: option<string | undefined>(
      'BUCKET',
      'the bucket to which results are uploaded before a task is stopped',
      undefined,
      parseText,
    ),
    ecsPrefix: option('ebb', 'the prefix of the keys in the bucket', 'ebb', parsePrefix),
    ecsRegion: option<string | undefined>('REGION', 'the AWS region; by default the one that the AWS SDK finds', undefined, parseText),
    ecsEndpoint: option<string | undefined>('URL', 'another endpoint for all AWS calls, such as an emulator', undefined, parseBase),
    ecsUploadDeadline: option<number | undefined>(
      'DURATION',
      'how long an unconfirmed upload may hold back the stop of its task before it is given up; by default for ever',
      undefined,
      parseDuration,
    ),
  },
  requires: { option: 'ecsCluster', what: 'the cluster in which tasks run' },
  recoveryEnvironment: (settings, environment) => {
    if (settings.ecsCluster === undefined) return {}
    return {
      // All variables of the AWS SDK begin with AWS_.
      ...Object.fromEntries(Object.entries(environment).filter(([name]) => name.startsWith('AWS_'))),
      EBB_ECS_CLUSTER: settings.ecsCluster,
      EBB_ECS_TASK_DEFINITION: settings.ecsTaskDefinition,
      EBB_ECS_PORT: String(settings.ecsPort),
      EBB_ECS_TOKEN: settings.ecsToken,
      EBB_ECS_TARGET_GROUP: settings.ecsTargetGroup,
      EBB_ECS_BUCKET: settings.ecsBucket,
      EBB_ECS_PREFIX: settings.ecsPrefix,
      EBB_ECS_REGION: settings.ecsRegion,
      EBB_ECS_ENDPOINT: settings.ecsEndpoint,
      EBB_ECS_UPLOAD_DEADLINE: settings.ecsUploadDeadline === undefined ? undefined : `${settings.ecsUploadDeadline}ms`,
    }
  },
  open: async (settings, parts) => (await import('./placement.ts')).openEcs(settings, parts),
})

/** Checks the prefix of keys in the bucket: it has no `.` or `..` parts, and no slash at either end. */
function parsePrefix(text: string, name: string): string {
  if (/^[A-Za-z0-9._-]+(\/[A-Za-z0-9._-]+)*$/.test(text) && !text.split('/').some((part) => /^\.+$/.test(part))) return text
  throw new EbbError('bad_usage', `${name} must be names of letters, digits, ".", "_" and "-", with slashes between them, not "${text}".`)
}
