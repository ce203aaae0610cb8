import type { Config } from './config/config.ts'
import { parseDockerHost } from './config/elsewhere-options.ts'
import type { Home } from './config/home.ts'
import type { Aws, AwsQueries } from './core/ports/aws.ts'
import type { Clock } from './core/ports/clock.ts'
import type { Effects } from './core/ports/effects.ts'
import type { Elsewhere } from './core/ports/elsewhere.ts'
import type { Host } from './core/ports/host.ts'
import type { ResourceKind } from './core/ports/kind.ts'
import type { Log } from './core/ports/log.ts'
import type { Runner } from './core/ports/runner.ts'
import { Daemon, daemonPlace } from './placements/docker/daemon.ts'
import { dockerOver } from './placements/docker/docker.ts'
import { Followers } from './placements/docker/follower.ts'
import { ContainerKind } from './placements/docker/kind.ts'
import { dockerPlacement } from './placements/docker/placement.ts'
import { looksAt } from './placements/docker/queries.ts'
import { ContainerRunKind } from './placements/docker/run.ts'
import { isOfContainer } from './placements/docker/signal-handlers.ts'
import { AddressLeaseKind } from './placements/ecs/address-lease.ts'
import { ClientPool } from './placements/ecs/clients.ts'
import { EcsTaskKind } from './placements/ecs/ecs-task.ts'
import { awsEffects } from './placements/ecs/effects.ts'
import { LbTargetKind } from './placements/ecs/lb-target.ts'
import { bucketPlace, ecsPlacement } from './placements/ecs/placement.ts'
import { awsQueries } from './placements/ecs/queries.ts'
import { RunnersTasks } from './placements/ecs/runners-task.ts'
import { type AwsTimes, usualTimes } from './placements/ecs/times.ts'
import { UploadKind } from './placements/ecs/upload.ts'
import type { LaunchContext } from './placements/files.ts'
import { RemoteAgentKind } from './placements/remote/kind.ts'
import { remotePlacement } from './placements/remote/placement.ts'
import { HttpRunner, HttpRunnerQueries } from './placements/remote/runner.ts'

/** The part of the composition root for agents that are not on this host. Loaded only where a setting speaks of one. */

export interface ElsewhereParts {
  readonly config: Config
  readonly home: Home
  readonly host: Host
  readonly clock: Clock
  readonly log: Log
  readonly effects: Effects
  readonly context: LaunchContext
  /** Wraps a port before it is used: the crash matrix and the fault tests come in here. */
  readonly wrap: <T extends object>(name: string, port: T) => T
}

export function wireElsewhere(parts: ElsewhereParts): readonly Elsewhere[] {
  const { config } = parts
  const aws = config.ecsCluster === undefined ? undefined : wireAws(parts)
  const agents = wireRemoteAgents(parts, aws)
  return [
    ...wireDocker(parts),
    ...(config.remoteUrl === undefined ? [] : [wireRemote(parts, config.remoteUrl, agents)]),
    ...(config.ecsCluster === undefined || !aws ? [] : [wireEcs(parts, config.ecsCluster, agents, aws)]),
  ]
}

/** Agents at runners, wherever those are: one kind for the placements `remote` and `ecs`. */
function wireRemoteAgents({ config, clock, log, effects, wrap, context }: ElsewhereParts, aws: AwsParts | undefined): RemoteAgentKind {
  const tasks = aws && new RunnersTasks({ ...aws, installation: context.installation })
  return new RemoteAgentKind({
    effects,
    clock,
    log,
    runner: wrap<Runner>('runner', new HttpRunner(clock)),
    looks: new HttpRunnerQueries(clock),
    limitBytes: config.limitLog,
    tokenFor: (spec) => ('url' in spec ? remoteTokenFor(config, spec.url) : config.ecsToken),
    placeOf: (spec) => ('task' in spec && spec.task ? tasks?.placeOf(spec.task) : undefined),
  })
}

/** A token is for the runner that it was set for: one that an agent on the books names, at another address, never sees it. */
function remoteTokenFor({ remoteUrl, remoteToken }: Config, url: string): string | undefined {
  if (remoteToken === undefined || originOf(remoteUrl) === originOf(url)) return remoteToken
  throw new Error(`Its runner is at ${url}, which is not the remote.url of now, and remote.token is not sent there; set both as they were.`)
}

function originOf(url: string | undefined): string | undefined {
  return url === undefined || !URL.canParse(url) ? undefined : new URL(url).origin
}

function wireRemote({ config, clock, context }: ElsewhereParts, url: string, kind: RemoteAgentKind): Elsewhere {
  const looks = new HttpRunnerQueries(clock)
  return remotePlacement({ context, url, token: config.remoteToken, kind: kind as ResourceKind, looks })
}

function wireDocker({ config, clock, effects, context, wrap }: ElsewhereParts): readonly Elsewhere[] {
  const { dockerImage, inheritedTag, environment } = config
  if (dockerImage === undefined) return []
  const host = config.dockerHost ?? (environment.DOCKER_HOST && parseDockerHost(environment.DOCKER_HOST, 'DOCKER_HOST'))
  const daemon = new Daemon(daemonPlace(host || undefined, environment), clock)
  const docker = wrap('docker', dockerOver(daemon))
  const looks = looksAt(daemon)
  const shared = { docker, effects, looks, clock, followers: new Followers({ effects, looks, clock }), unheard: new Set<string>() }
  const kinds = [
    new ContainerKind({ ...shared, inheritedTag, mostBytes: config.limitLog }),
    new ContainerRunKind(shared),
  ] as readonly ResourceKind[]
  return [dockerPlacement({ settings: { ...config, dockerImage }, host: daemon.place.host, context, looks, kinds, isOfContainer })]
}

interface AwsParts {
  readonly aws: Aws
  readonly looks: AwsQueries
  readonly times: AwsTimes
}

function wireAws({ config: { ecsRegion, ecsEndpoint }, wrap }: ElsewhereParts): AwsParts {
  const pool = new ClientPool({
    ...(ecsRegion !== undefined && { region: ecsRegion }),
    ...(ecsEndpoint !== undefined && { endpoint: ecsEndpoint }),
  })
  return { aws: wrap('aws', awsEffects(pool)), looks: awsQueries(pool), times: wrap('aws-times', usualTimes) }
}

/** All its kinds, whichever settings there are by now: what was made with others is still to be released. */
function wireEcs({ config, clock, context }: ElsewhereParts, cluster: string, agents: RemoteAgentKind, aws: AwsParts): Elsewhere {
  const { installation } = context
  const settings = { ...config, ecsCluster: cluster, hasToken: config.ecsToken !== undefined }
  const place = bucketPlace(settings)
  const family = {
    cluster,
    taskDefinition: config.ecsTaskDefinition ?? '',
    ...(config.ecsRegion !== undefined && { region: config.ecsRegion }),
  }
  const network = { subnets: config.ecsSubnets, securityGroups: config.ecsSecurityGroups, assignPublicIp: config.ecsAssignPublicIp }
  const target = { ...family, group: config.ecsTargetGroup, port: config.ecsPort, ...(place && { leases: place }) }
  const kinds = [
    new EcsTaskKind({ ...aws, installation, settings: { ...family, ...network } }),
    new LbTargetKind({ ...aws, installation, settings: target }),
    new AddressLeaseKind({ ...aws, installation, place }),
    new UploadKind({ ...aws, installation, place, givesUpAfterMs: config.ecsUploadDeadline }),
    agents,
  ] as readonly ResourceKind[]
  return ecsPlacement({ settings, context, looks: aws.looks, clock, kinds })
}
