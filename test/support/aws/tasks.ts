import type { ChildProcess } from 'node:child_process'
import { type Asked, errorReply, json, type Reply } from './operation.ts'

/**
 * ECS tasks on top of moto. A task takes time to start and stop, has an address, and is created once per client token. Listings are paged
 * and filtered by desired status. Each task runs a real process.
 */

/** The process that runs in a task. */
export interface Inside {
  readonly child: ChildProcess
  /** Resolves when the process has ended and its streams are closed. */
  readonly ended: Promise<unknown>
}

export interface TaskWorld {
  /** Starts the process of a task at an address. Decoys have no process. */
  start(address: string): Inside
  readonly startMs: number
  readonly stopMs: number
}

export const usualStopTimeoutMs = 12_000

type Status = 'PENDING' | 'RUNNING' | 'STOPPING' | 'STOPPED'

export interface FakeTask {
  readonly arn: string
  readonly startedBy: string
  readonly tags: readonly { readonly key: string; readonly value: string }[]
  /** The task as moto created it. */
  readonly body: Record<string, unknown>
  readonly token: string
  address: string
  status: Status
  desired: 'RUNNING' | 'STOPPED'
  stoppedReason?: string
  inside?: Inside
}

type Moto = (asked: Asked) => Promise<Reply>

export class Tasks {
  readonly all = new Map<string, FakeTask>()
  readonly #world: TaskWorld
  /** The failure reason that the next RunTask returns instead of a task. */
  noCapacity: string | undefined
  /** Addresses for the next tasks. Tasks created after these get generated addresses. */
  readonly nextAddresses: string[] = []
  /** Time between SIGTERM and SIGKILL of a stopped task's process. */
  stopTimeoutMs = usualStopTimeoutMs
  #lastHost = 10

  constructor(world: TaskWorld) {
    this.#world = world
  }

  stand(asked: Asked, toMoto: Moto): Promise<Reply> | undefined {
    const input = JSON.parse(asked.body.toString('utf8') || '{}') as Record<string, unknown>
    if (asked.name === 'RunTask') return this.#run(asked, input, toMoto)
    if (asked.name === 'StopTask') return this.#stop(input)
    if (asked.name === 'DescribeTasks') return Promise.resolve(this.#describe(input))
    return asked.name === 'ListTasks' ? Promise.resolve(this.#list(input)) : undefined
  }

  async #run(asked: Asked, input: Record<string, unknown>, toMoto: Moto): Promise<Reply> {
    const token = String(input.clientToken ?? '')
    const known = [...this.all.values()].find((task) => token !== '' && task.token === token)
    if (known) return json({ tasks: [this.#shown(known, false)], failures: [] })
    if (this.noCapacity !== undefined) {
      const failures = [{ arn: 'capacity', reason: this.noCapacity }]
      this.noCapacity = undefined
      return json({ tasks: [], failures })
    }
    const reply = await toMoto(asked)
    if (reply.status !== 200) return reply
    const { tasks } = JSON.parse(String(reply.body)) as { tasks: Record<string, unknown>[] }
    const [body = {}] = tasks
    const task: FakeTask = {
      arn: String(body.taskArn),
      startedBy: String(input.startedBy ?? ''),
      tags: (input.tags ?? []) as FakeTask['tags'],
      body,
      token,
      address: this.#nextAddress(),
      status: 'PENDING',
      desired: 'RUNNING',
    }
    this.all.set(task.arn, task)
    const isDecoy = String(input.group ?? '').startsWith('decoy')
    if (isDecoy) task.status = 'RUNNING'
    else this.#begin(task)
    return json({ tasks: [this.#shown(task, false)], failures: [] })
  }

  #nextAddress(): string {
    const given = this.nextAddresses.shift()
    if (given !== undefined) return given
    this.#lastHost += 1
    return `127.0.0.${this.#lastHost}`
  }

  /** The process starts at once. The task becomes RUNNING a little later. */
  #begin(task: FakeTask): void {
    task.inside = this.#world.start(task.address)
    void task.inside.ended.then(() => this.#ended(task))
    setTimeout(() => {
      if (task.status === 'PENDING') task.status = 'RUNNING'
    }, this.#world.startMs)
  }

  #ended(task: FakeTask): void {
    task.desired = 'STOPPED'
    if (task.status === 'STOPPED') return
    task.stoppedReason ??= 'Essential container in task exited'
    task.status = 'STOPPING'
    setTimeout(() => {
      task.status = 'STOPPED'
    }, this.#world.stopMs)
  }

  async #stop(input: Record<string, unknown>): Promise<Reply> {
    const task = this.find(String(input.task))
    if (!task) return errorReply('ecs', 400, 'InvalidParameterException', 'The referenced task was not found.')
    if (task.desired === 'RUNNING') {
      task.desired = 'STOPPED'
      task.stoppedReason = String(input.reason ?? '')
      this.#end(task)
    }
    return json({ task: this.#shown(task, false) })
  }

  #end(task: FakeTask): void {
    const { inside } = task
    if (!inside) {
      this.#ended(task)
      return
    }
    if (task.status !== 'STOPPED') task.status = 'STOPPING'
    inside.child.kill('SIGTERM')
    const timer = setTimeout(() => inside.child.kill('SIGKILL'), this.stopTimeoutMs)
    void inside.ended.then(() => clearTimeout(timer))
  }

  find(name: string): FakeTask | undefined {
    return this.all.get(name) ?? [...this.all.values()].find(({ arn }) => arn.endsWith(`/${name}`))
  }

  #describe(input: Record<string, unknown>): Reply {
    const names = (input.tasks ?? []) as string[]
    const tasks = names.flatMap((name) => this.find(name) ?? [])
    const failures = names.filter((name) => !this.find(name)).map((arn) => ({ arn, reason: 'MISSING' }))
    const hasTags = ((input.include ?? []) as string[]).includes('TAGS')
    return json({ tasks: tasks.map((task) => this.#shown(task, hasTags)), failures })
  }

  #list({ startedBy, desiredStatus, family, maxResults, nextToken }: Record<string, unknown>): Reply {
    if (startedBy !== undefined && (desiredStatus !== undefined || family !== undefined))
      return errorReply('ecs', 400, 'InvalidParameterException', 'startedBy must be the only filter')
    const wanted = desiredStatus ?? 'RUNNING'
    const fits = [...this.all.values()].filter(
      (task) => task.desired === wanted && (startedBy === undefined || task.startedBy === startedBy) && isOfFamily(task, family),
    )
    // Small pages: a client that does not follow `nextToken` misses most tasks.
    const size = Math.min(Number(maxResults ?? 100), pageSize)
    const from = Number(nextToken ?? 0)
    const taskArns = fits.slice(from, from + size).map(({ arn }) => arn)
    return json({ taskArns, ...(from + size < fits.length && { nextToken: String(from + size) }) })
  }

  #shown(task: FakeTask, hasTags: boolean): object {
    const details = [{ name: 'privateIPv4Address', value: task.address }]
    const attachments = task.status === 'PENDING' ? [] : [{ id: 'eni', type: 'ElasticNetworkInterface', status: 'ATTACHED', details }]
    return {
      ...task.body,
      lastStatus: task.status,
      desiredStatus: task.desired,
      startedBy: task.startedBy,
      attachments,
      tags: hasTags ? task.tags : [],
      ...(task.stoppedReason !== undefined && { stoppedReason: task.stoppedReason }),
    }
  }

  /** Ends the processes of all tasks, at the end of a test. */
  async endAll(): Promise<void> {
    for (const { inside } of this.all.values()) inside?.child.kill('SIGTERM')
    await Promise.all([...this.all.values()].map(({ inside }) => inside?.ended))
    this.all.clear()
  }
}

const pageSize = 3

function isOfFamily({ body }: FakeTask, family: unknown): boolean {
  return family === undefined || String(body.taskDefinitionArn).includes(`/${String(family)}:`)
}
