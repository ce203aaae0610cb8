import { randomBytes } from 'node:crypto'
import { type RunningEbb, startEbb, temporaryHome } from '../home.ts'
import { startServer, type TestServer } from '../server.ts'
import { type HeldPort, holdPort, type Moto, startMoto } from './moto.ts'
import { Objects } from './objects.ts'
import type { Reply } from './operation.ts'
import { FaultingProxy } from './proxy.ts'
import { Targets } from './targets.ts'
import { type FakeTask, Tasks, usualStopTimeoutMs } from './tasks.ts'

/**
 * A simulated AWS account: moto, the proxy in front of it, and a real runner for each task at its own loopback address. Its state is read
 * from moto and from the proxy's records over plain HTTP. Neither the SDK nor Ebb's code takes part in that.
 */

export const region = 'us-east-1'
export const cluster = 'agents'
const family = 'agent'
/** A task definition of a foreign user of the cluster, or of an earlier configuration of Ebb. */
export const otherFamily = 'other'
const prefix = 'ebb'

const credentials = { AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test', AWS_REGION: region, AWS_EC2_METADATA_DISABLED: 'true' }

/** A server under test must not find the AWS credentials of the user who runs the tests. */
const noProfile = {
  AWS_PROFILE: undefined,
  AWS_SESSION_TOKEN: undefined,
  AWS_CONFIG_FILE: '/dev/null',
  AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
}

export interface WorldObject {
  readonly key: string
  readonly sizeBytes: number
}

export class AwsWorld implements AsyncDisposable {
  readonly proxy: FaultingProxy
  readonly tasks: Tasks
  readonly targets: Targets
  readonly bucket = 'results'
  readonly token = randomBytes(8).toString('hex')
  readonly runners: RunningEbb[] = []
  readonly #held: HeldPort
  readonly #moto: Moto
  #group = ''
  #subnet = ''

  private constructor(parts: { moto: Moto; proxy: FaultingProxy; tasks: Tasks; targets: Targets; held: HeldPort }) {
    this.#moto = parts.moto
    this.proxy = parts.proxy
    this.tasks = parts.tasks
    this.targets = parts.targets
    this.#held = parts.held
  }

  static async start(times: { startMs?: number; stopMs?: number } = {}): Promise<AwsWorld> {
    const [moto, held] = await Promise.all([startMoto(), holdPort()])
    const targets = new Targets()
    const objects = new Objects()
    let world: AwsWorld | undefined
    const tasks = new Tasks({
      startMs: times.startMs ?? 100,
      stopMs: times.stopMs ?? 50,
      start: (address) => {
        if (!world) throw new Error('The simulated AWS account has not started yet.')
        const ebb = world.#startRunner(address)
        // A runner that fails to start counts as an ended task.
        return { child: ebb.child, ended: ebb.ended.catch(() => {}) }
      },
    })
    const proxy = await FaultingProxy.start(moto.port, (asked, toMoto) => {
      if (asked.service === 'ecs') return tasks.stand(asked, toMoto)
      if (asked.service === 'elb') return targets.stand(asked)
      return asked.service === 's3' ? objects.stand(asked, toMoto) : undefined
    })
    world = new AwsWorld({ moto, proxy, tasks, targets, held })
    await world.#furnish()
    return world
  }

  /** The port of the runners. Each runner listens at an address of its own. */
  get port(): number {
    return this.#held.port
  }

  get group(): string {
    return this.#group
  }

  /** The settings of every server that uses this account. */
  flags(more: Readonly<Record<string, string | undefined>> = {}): Readonly<Record<string, string>> {
    const all = {
      'ecs-cluster': cluster,
      'ecs-task-definition': family,
      'ecs-container-name': 'runner',
      'ecs-subnets': this.#subnet,
      'ecs-port': String(this.port),
      'ecs-token': this.token,
      'ecs-target-group': this.#group,
      'ecs-bucket': this.bucket,
      'ecs-prefix': prefix,
      'ecs-region': region,
      'ecs-endpoint': this.proxy.url,
      ...more,
    }
    return Object.fromEntries(Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined))
  }

  /** The settings of a server that uses this account, in the form of a configuration file, below `ecs`. */
  settings(): Readonly<Record<string, string | number | readonly string[]>> {
    const plain = Object.entries(this.flags()).map(([name, value]) => {
      const key = name.replace(/^ecs-/, '').replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())
      return [key, key === 'port' ? Number(value) : key === 'subnets' ? [value] : value] as const
    })
    return Object.fromEntries(plain)
  }

  words(more: Readonly<Record<string, string | undefined>> = {}): readonly string[] {
    return Object.entries(this.flags(more)).flatMap(([name, value]) => [`--${name}`, value])
  }

  environment(): Readonly<Record<string, string | undefined>> {
    return { ...noProfile, ...credentials }
  }

  /** Sets the AWS variables in this process, for kinds and engines that run in the test's own process. */
  becomeEnvironment(): void {
    for (const [name, value] of Object.entries(this.environment())) {
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    }
  }

  async server(
    more: Readonly<Record<string, string | undefined>> = {},
    home = temporaryHome(),
    words: readonly string[] = [],
  ): Promise<TestServer> {
    return await startServer([...this.words(more), ...words], { home, env: this.environment() })
  }

  #startRunner(address: string): RunningEbb {
    const words = ['serve', '--runner', '--json', '--host', address, '--port', String(this.port), '--token', this.token]
    const ebb = startEbb(words, { home: temporaryHome(), deadlineMs: 600_000 })
    this.runners.push(ebb)
    return ebb
  }

  async #furnish(): Promise<void> {
    this.#subnet =
      /<subnetId>(subnet-[^<]+)</.exec(await this.#form('ec2', { Action: 'DescribeSubnets', Version: '2016-11-15' }))?.[1] ?? ''
    const vpc = /<vpcId>(vpc-[^<]+)</.exec(await this.#form('ec2', { Action: 'DescribeVpcs', Version: '2016-11-15' }))?.[1] ?? ''
    await this.ecs('CreateCluster', { clusterName: cluster })
    for (const name of [family, otherFamily])
      await this.ecs('RegisterTaskDefinition', {
        family: name,
        networkMode: 'awsvpc',
        requiresCompatibilities: ['FARGATE'],
        cpu: '256',
        memory: '512',
        containerDefinitions: [{ name: 'runner', image: 'ebb-runner', memory: 512 }],
      })
    const group = { Action: 'CreateTargetGroup', Version: '2015-12-01', Name: 'agents', Protocol: 'HTTP', Port: String(this.port) }
    const made = await this.#form('elasticloadbalancing', { ...group, VpcId: vpc, TargetType: 'ip' })
    this.#group = /<TargetGroupArn>([^<]+)</.exec(made)?.[1] ?? ''
    await this.#s3('PUT', `/${this.bucket}`)
  }

  /** Calls ECS as a foreign client: without faults and without a record. */
  async ecs(operation: string, input: object): Promise<Record<string, unknown>> {
    const headers = {
      ...authorization('ecs'),
      'content-type': 'application/x-amz-json-1.1',
      'x-amz-target': `AmazonEC2ContainerServiceV20141113.${operation}`,
    }
    const body = Buffer.from(JSON.stringify(input))
    const reply = await this.proxy.answer({ service: 'ecs', name: operation, method: 'POST', url: new URL('http://aws/'), headers, body })
    return JSON.parse(String(reply.body)) as Record<string, unknown>
  }

  async #form(service: string, fields: Record<string, string>): Promise<string> {
    const headers = { ...authorization(service), 'content-type': 'application/x-www-form-urlencoded' }
    const body = Buffer.from(new URLSearchParams(fields).toString())
    const asked = { service: 'elb' as const, name: fields.Action ?? '', method: 'POST', url: new URL('http://aws/'), headers, body }
    return String((await this.proxy.toMoto(asked)).body)
  }

  async #s3(method: string, path: string, body = '', headers: Record<string, string> = {}): Promise<Reply> {
    const url = new URL(`http://aws${path}`)
    const all = { ...authorization('s3'), ...headers }
    return await this.proxy.toMoto({ service: 's3', name: method, method, url, headers: all, body: Buffer.from(body) })
  }

  async objects(under = ''): Promise<readonly WorldObject[]> {
    const text = String((await this.#s3('GET', `/${this.bucket}?list-type=2&prefix=${encodeURIComponent(under)}`)).body)
    return [...text.matchAll(/<Contents><Key>([^<]+)<\/Key>.*?<Size>(\d+)<\/Size>/gs)].map(([, key = '', size]) => ({
      key,
      sizeBytes: Number(size),
    }))
  }

  async text(key: string): Promise<string> {
    return String((await this.#s3('GET', `/${this.bucket}/${key}`)).body)
  }

  async put(key: string, body: string, metadata: Readonly<Record<string, string>> = {}): Promise<void> {
    const headers = Object.fromEntries(Object.entries(metadata).map(([name, value]) => [`x-amz-meta-${name}`, value]))
    await this.#s3('PUT', `/${this.bucket}/${key}`, body, headers)
  }

  async remove(key: string): Promise<void> {
    await this.#s3('DELETE', `/${this.bucket}/${key}`)
  }

  /** Keys of multipart uploads that were begun and neither completed nor aborted. */
  async openUploads(): Promise<readonly string[]> {
    const text = String((await this.#s3('GET', `/${this.bucket}?uploads`)).body)
    return [...text.matchAll(/<Upload>.*?<Key>([^<]+)<\/Key>/gs)].map(([, key = '']) => key)
  }

  async #abortUploads(): Promise<void> {
    const text = String((await this.#s3('GET', `/${this.bucket}?uploads`)).body)
    for (const [, upload = ''] of text.matchAll(/<Upload>(.*?)<\/Upload>/gs)) {
      const [key, id] = [/<Key>([^<]+)</.exec(upload)?.[1], /<UploadId>([^<]+)</.exec(upload)?.[1]]
      await this.#s3('DELETE', `/${this.bucket}/${key}?uploadId=${id}`)
    }
  }

  async beginUpload(key: string): Promise<void> {
    await this.#s3('POST', `/${this.bucket}/${key}?uploads`)
  }

  /** Runs a foreign task. No process runs in it. */
  async runDecoy(tags: Readonly<Record<string, string>>, startedBy = 'somebody', taskDefinition = family): Promise<FakeTask> {
    const list = Object.entries(tags).map(([key, value]) => ({ key, value }))
    const network = { awsvpcConfiguration: { subnets: [this.#subnet], securityGroups: [], assignPublicIp: 'DISABLED' } }
    const input = {
      cluster,
      taskDefinition,
      launchType: 'FARGATE',
      group: 'decoys',
      startedBy,
      tags: list,
      networkConfiguration: network,
    }
    const { tasks } = await this.ecs('RunTask', input)
    const task = this.tasks.find(String((tasks as Record<string, unknown>[])[0]?.taskArn))
    if (!task) throw new Error('The decoy was not started.')
    return task
  }

  living(): readonly FakeTask[] {
    return [...this.tasks.all.values()].filter(({ status }) => status !== 'STOPPED')
  }

  /** Everything that Ebb left in this account, without the decoys of the test. Empty when the account is clean. */
  async left(decoys: ReadonlySet<string> = new Set()): Promise<readonly string[]> {
    const leases = (await this.objects(`${prefix}/leases/`)).map(({ key }) => key)
    return [
      ...this.living().map(({ arn, status }) => `task ${arn} ${status}`),
      ...[...this.targets.all.values()].map(({ address, state }) => `target ${address} ${state}`),
      ...leases.map((key) => `lease ${key}`),
      ...(await this.openUploads()).map((key) => `parts ${key}`),
    ].filter((resource) => ![...decoys].some((decoy) => resource.includes(decoy)))
  }

  /** Restores the initial state between two tests. */
  async reset(): Promise<void> {
    this.proxy.heal()
    this.proxy.latencyMs = 0
    await this.tasks.endAll()
    this.tasks.noCapacity = undefined
    this.tasks.stopTimeoutMs = usualStopTimeoutMs
    this.tasks.nextAddresses.length = 0
    this.targets.all.clear()
    this.targets.areUnhealthy = false
    this.targets.drainMs = 50
    for (const { key } of await this.objects()) await this.remove(key)
    await this.#abortUploads()
    this.proxy.calls.length = 0
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.tasks.endAll()
    await this.proxy[Symbol.asyncDispose]()
    await this.#moto[Symbol.asyncDispose]()
    await this.#held[Symbol.asyncDispose]()
  }
}

/** Headers for a call to moto, which reads the service from the Authorization header and does not check the signature. */
function authorization(service: string): Record<string, string> {
  return {
    host: 'aws',
    authorization: `AWS4-HMAC-SHA256 Credential=test/20260101/${region}/${service}/aws4_request, SignedHeaders=host, Signature=0`,
  }
}
