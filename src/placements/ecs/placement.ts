import { EbbError } from '../../core/model/errors.ts'
import { logLabels } from '../../core/ports/agent-log.ts'
import { type Planned, planned, type ResourceKind } from '../../core/ports/kind.ts'
import type { Placement } from '../../core/ports/placement.ts'
import { type ProcessLaunch, treeLabel } from '../../core/ports/process.ts'
import type { PlacementParts } from '../definition.ts'
import { type LaunchContext, planFiles } from '../files.ts'
import { type RemoteAgentSpec, remoteAgentKind } from '../remote/ports.ts'
import { runnerAgentsOf } from '../remote/runner-agents.ts'
import { AddressLeaseKind, addressLeaseKind } from './address-lease.ts'
import type { Aws, AwsQueries } from './aws.ts'
import { ClientPool } from './clients.ts'
import { EcsTaskKind, ecsTaskKind, taskLabel } from './ecs-task.ts'
import { awsEffects } from './effects.ts'
import { LbTargetKind, lbTargetKind } from './lb-target.ts'
import { awsQueries } from './queries.ts'
import { RunnersTasks } from './runners-task.ts'
import { checkSettings, type EcsSettings } from './settings.ts'
import { type BucketPlace, leaseLabel, type TargetSpec, type TaskSpec, targetLabel, uploadLabel } from './specs.ts'
import { type AwsTimes, usualTimes } from './times.ts'
import { UploadKind, uploadKind } from './upload.ts'

/** Placement `ecs`: a Fargate task of its own for every agent, in which a runner starts the agent. */

/** The options as they are configured. The registry opens the placement only when there is a cluster. */
type EcsOptions = Omit<EcsSettings, 'ecsCluster' | 'hasToken'> & {
  readonly ecsCluster: string | undefined
  readonly ecsToken: string | undefined
}

/** For this time after the settings passed the check, launches do not check them again. */
const goodForMs = 60_000

export function openEcs(options: EcsOptions, parts: PlacementParts): Placement {
  const { clock, context } = parts
  const settings: EcsSettings = { ...options, ecsCluster: options.ecsCluster ?? '', hasToken: options.ecsToken !== undefined }
  const aws = openAws(settings, parts)
  const { queries } = aws
  const agents = runnerAgentsOf(parts)
  const tasks = new RunnersTasks({ ...aws, installation: context.installation })
  agents.useTasks({ token: options.ecsToken, placeOf: (task) => tasks.placeOf(task) })
  const call = { signal: new AbortController().signal, clock }
  let goodUntilMs = 0
  return {
    name: 'ecs',
    kinds: [...kindsOf(settings, aws, context.installation), agents.kind],
    plan: (scopeId, launch) => planEcs(settings, context, scopeId, launch),
    requireReady: async () => {
      if (clock.now() < goodUntilMs) return
      const bad = (await checkSettings(settings, queries, call)).filter(({ isGood }) => !isGood)
      if (bad.length > 0)
        throw new EbbError('launch_refused', bad.map(({ setting, says }) => `${setting}: ${says}`).join(' '), { details: bad })
      goodUntilMs = clock.now() + goodForMs
    },
    check: () => checkSettings(settings, queries, call),
  }
}

interface AwsParts {
  readonly aws: Aws
  readonly queries: AwsQueries
  readonly times: AwsTimes
}

function openAws({ ecsRegion, ecsEndpoint }: EcsSettings, { wrap }: PlacementParts): AwsParts {
  const pool = new ClientPool({
    ...(ecsRegion !== undefined && { region: ecsRegion }),
    ...(ecsEndpoint !== undefined && { endpoint: ecsEndpoint }),
  })
  return { aws: wrap('aws', awsEffects(pool)), queries: awsQueries(pool), times: wrap('aws-times', usualTimes) }
}

/** Returns every kind of resource, whatever is configured now: resources that were created with other settings must still be released. */
function kindsOf(settings: EcsSettings, aws: AwsParts, installation: string): readonly ResourceKind[] {
  const { ecsCluster: cluster, ecsTaskDefinition: taskDefinition = '', ecsRegion: region } = settings
  const place = bucketPlace(settings)
  const family = { cluster, taskDefinition, ...(region !== undefined && { region }) }
  const network = { subnets: settings.ecsSubnets, securityGroups: settings.ecsSecurityGroups, assignPublicIp: settings.ecsAssignPublicIp }
  const target = { ...family, group: settings.ecsTargetGroup, port: settings.ecsPort, ...(place && { leases: place }) }
  return [
    new EcsTaskKind({ ...aws, installation, settings: { ...family, ...network } }),
    new LbTargetKind({ ...aws, installation, settings: target }),
    new AddressLeaseKind({ ...aws, installation, place }),
    new UploadKind({ ...aws, installation, place, givesUpAfterMs: settings.ecsUploadDeadline }),
  ]
}

/**
 * The creation follows this order, and the release follows the dependencies. First the agent ends, through its runner. Then its logs are
 * uploaded. The target is deregistered in parallel with both. Then the task stops, and the lease of the address is deleted last. The upload
 * and the target directly follow the lease in the plan: see `afterLease`.
 */
function planEcs(settings: EcsSettings, context: LaunchContext, scopeId: string, launch: ProcessLaunch): readonly Planned[] {
  if (launch.workspace)
    throw new EbbError(
      'launch_refused',
      'An agent of a task works in the folder of the task, which is not in the Fargate task; use another placement.',
    )
  if (!launch.order) throw new EbbError('launch_refused', 'The placement ecs runs agents, not commands; use the placement process.')
  const { installation } = context
  const { config: _written, ...rest } = launch
  const logs = planFiles(context, scopeId, { ...rest, output: 'logs' }, 'follower')
  const task = taskSpec(settings, installation)
  const { cluster, taskDefinition, region } = task
  const family = { cluster, taskDefinition, ...(region !== undefined && { region }) }
  const place = bucketPlace(settings)
  const withBucket = place ? [leaseLabel] : []
  const agent: RemoteAgentSpec = { installation, port: settings.ecsPort, task: family }
  const live = { order: launch.order, runner: taskLabel }
  const dependsOn = [...logLabels, taskLabel, ...(place ? [uploadLabel] : [])]
  return [
    ...logs,
    planned({ label: taskLabel, kind: ecsTaskKind, spec: task, dependsOn: withBucket }),
    ...(place ? planBucket(place, installation) : []),
    ...planTarget(settings, { ...family, installation, ...(place && { leases: place }) }, [taskLabel, ...withBucket]),
    planned({ label: treeLabel, kind: remoteAgentKind, spec: agent, live, dependsOn }),
  ]
}

export function taskSpec(settings: EcsSettings, installation: string): TaskSpec {
  const { ecsCluster, ecsTaskDefinition, ecsSubnets, ecsSecurityGroups, ecsAssignPublicIp, ecsRegion } = settings
  return {
    installation,
    cluster: ecsCluster,
    taskDefinition: ecsTaskDefinition ?? missing('ecs.taskDefinition'),
    subnets: ecsSubnets.length > 0 ? ecsSubnets : missing('ecs.subnets'),
    securityGroups: ecsSecurityGroups,
    assignPublicIp: ecsAssignPublicIp,
    ...(ecsRegion !== undefined && { region: ecsRegion }),
  }
}

export function bucketPlace({ ecsBucket, ecsPrefix, ecsRegion }: EcsSettings): BucketPlace | undefined {
  if (ecsBucket === undefined) return undefined
  return { bucket: ecsBucket, prefix: ecsPrefix, ...(ecsRegion !== undefined && { region: ecsRegion }) }
}

function planBucket(place: BucketPlace, installation: string): readonly Planned[] {
  const spec = { ...place, installation }
  return [
    planned({ label: leaseLabel, kind: addressLeaseKind, spec }),
    planned({ label: uploadLabel, kind: uploadKind, spec, dependsOn: [taskLabel, ...logLabels] }),
  ]
}

function planTarget(
  { ecsTargetGroup, ecsPort }: EcsSettings,
  rest: Omit<TargetSpec, 'group' | 'port'>,
  dependsOn: readonly string[],
): readonly Planned[] {
  if (ecsTargetGroup === undefined) return []
  const spec: TargetSpec = { ...rest, group: ecsTargetGroup, port: ecsPort }
  return [planned({ label: targetLabel, kind: lbTargetKind, spec, dependsOn })]
}

function missing(setting: string): never {
  throw new EbbError('launch_refused', `The placement ecs needs the setting ${setting}; the guide on AWS has a configuration to copy.`)
}
