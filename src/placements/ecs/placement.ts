import { EbbError } from '../../core/model/errors.ts'
import type { AwsQueries } from '../../core/ports/aws.ts'
import type { Clock } from '../../core/ports/clock.ts'
import {
  type BucketPlace,
  type LeaseSpec,
  leaseLabel,
  type TargetSpec,
  type TaskSpec,
  targetLabel,
  type UploadSpec,
  uploadLabel,
} from '../../core/ports/ecs.ts'
import type { Elsewhere } from '../../core/ports/elsewhere.ts'
import type { Planned, ResourceKind } from '../../core/ports/kind.ts'
import { logLabels, type ProcessLaunch, treeLabel } from '../../core/ports/process.ts'
import { addressLabel, type RemoteAgentLaunch, type RemoteAgentSpec } from '../../core/ports/runner.ts'
import { type LaunchContext, planFiles } from '../files.ts'
import { checkSettings, type EcsSettings } from './settings.ts'

/** Placement `ecs`: a Fargate task of its own for every agent, with a runner in it that starts the agent. */

export interface EcsDeps {
  readonly settings: EcsSettings
  readonly context: LaunchContext
  readonly looks: AwsQueries
  readonly clock: Clock
  readonly kinds: readonly ResourceKind[]
}

/** Settings that were seen to be good are not looked at again for every launch of many. */
const goodForMs = 60_000

export function ecsPlacement(deps: EcsDeps): Elsewhere {
  const { settings, looks, clock } = deps
  const call = { signal: new AbortController().signal, clock }
  let goodUntilMs = 0
  return {
    name: 'ecs',
    kinds: deps.kinds,
    plan: (scopeId, launch) => planEcs(deps, scopeId, launch),
    requireReady: async () => {
      if (clock.now() < goodUntilMs) return
      const bad = (await checkSettings(settings, looks, call)).filter(({ isGood }) => !isGood)
      if (bad.length > 0)
        throw new EbbError('launch_refused', bad.map(({ setting, says }) => `${setting}: ${says}`).join(' '), { details: bad })
      goodUntilMs = clock.now() + goodForMs
    },
    check: () => checkSettings(settings, looks, call),
  }
}

/**
 * Made in this order, released by what depends on what: the agent goes first, through its runner; then the upload of what it wrote,
 * and beside both the target; the task when they are out; the address last. A lease is followed by its upload and its target: see
 * `afterLease`.
 */
function planEcs({ settings, context }: EcsDeps, scopeId: string, launch: ProcessLaunch): readonly Planned[] {
  if (launch.workspace)
    throw new EbbError(
      'launch_refused',
      'An agent of a task works in its folder, which a Fargate task does not have; use another placement.',
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
  const live: RemoteAgentLaunch = { order: launch.order }
  return [
    ...logs,
    { label: addressLabel, kind: 'ecs-task', spec: task, dependsOn: withBucket },
    ...(place ? planBucket(place, installation) : []),
    ...planTarget(settings, { ...family, installation, ...(place && { leases: place }) }, [addressLabel, ...withBucket]),
    { label: treeLabel, kind: 'remote-agent', spec: agent, live, dependsOn: [...logLabels, addressLabel, ...(place ? [uploadLabel] : [])] },
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
  const lease: LeaseSpec = { ...place, installation }
  const upload: UploadSpec = { ...place, installation }
  return [
    { label: leaseLabel, kind: 'address-lease', spec: lease },
    { label: uploadLabel, kind: 'upload', spec: upload, dependsOn: [addressLabel, ...logLabels] },
  ]
}

function planTarget(
  { ecsTargetGroup, ecsPort }: EcsSettings,
  rest: Omit<TargetSpec, 'group' | 'port'>,
  dependsOn: readonly string[],
): readonly Planned[] {
  if (ecsTargetGroup === undefined) return []
  const spec: TargetSpec = { ...rest, group: ecsTargetGroup, port: ecsPort }
  return [{ label: targetLabel, kind: 'lb-target', spec, dependsOn }]
}

function missing(setting: string): never {
  throw new EbbError('launch_refused', `The placement ecs needs the setting ${setting}; the guide on AWS has a configuration to copy.`)
}
