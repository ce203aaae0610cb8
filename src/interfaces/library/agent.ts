import { EbbError } from '../../domain/errors.ts'
import type { Message } from '../../domain/message.ts'
import type { Report } from '../../domain/report.ts'
import type { BookScope } from '../../engine/book.ts'
import type { Supervisor } from '../../main.ts'
import type { Exit } from '../../ports/effects.ts'
import { type LogHandle, logLabels, type TreeHandle, treeLabel } from '../../ports/process.ts'
import { tailLines } from '../../stream/tail.ts'
import { merge } from './merge.ts'

export type AgentStatus = 'running' | 'stopping' | 'completed' | 'failed' | 'terminated' | 'stuck'

export interface LaunchOptions {
  readonly type: 'command'
  /** Goes to the command's standard input. */
  readonly prompt?: string
  readonly configuration: {
    /** An argv array; no shell is involved. */
    readonly command: readonly string[]
    readonly workingDirectory?: string
    readonly env?: Readonly<Record<string, string>>
    /** Milliseconds; the agent is ended, `failed`, after it. */
    readonly timeout?: number
    readonly limits?: { readonly memoryBytes?: number; readonly pids?: number }
  }
}

export interface StopOptions {
  readonly force?: boolean
  /** Milliseconds for polite and terminate together. */
  readonly grace?: number
}

/** One run, from launch to the proof that it is gone. Leaving its block stops it; a failure to release throws. */
export class Agent implements AsyncDisposable {
  readonly id: string
  readonly #supervisor: Supervisor
  readonly #prompt: string | undefined
  readonly #tree: TreeHandle
  readonly #logs: readonly LogHandle[]
  readonly #startedAt: string
  /** Settles with the first close's report, however the agent ended. */
  readonly ended: Promise<Report>
  #status: AgentStatus = 'running'
  #exit: Exit | undefined
  #stopped = false

  private constructor(supervisor: Supervisor, scope: BookScope, handles: ReadonlyMap<string, unknown>, options: LaunchOptions) {
    this.id = scope.id
    this.#supervisor = supervisor
    this.#prompt = options.prompt
    this.#tree = handles.get(treeLabel) as TreeHandle
    this.#logs = logLabels.map((label) => handles.get(label) as LogHandle)
    this.#startedAt = supervisor.engine.parts.clock.wall()
    for (const log of this.#logs) log.done()
    this.#tree.stdin?.end(options.prompt)
    this.ended = this.#watch(options.configuration.timeout)
    this.ended.catch(() => {})
  }

  static async launch(supervisor: Supervisor, parentId: string, options: LaunchOptions): Promise<Agent> {
    if (options.type !== 'command') throw new EbbError('launch_refused', `There is no provider "${String(options.type)}"; use "command".`)
    const { command, workingDirectory, env, limits } = options.configuration
    const { engine, config } = supervisor
    const scope = engine.openScope({ id: engine.parts.newId(), kind: 'agent', parentId })
    const handles = await engine.launch(
      scope,
      planOrForget(supervisor, scope, {
        argv: command,
        env: { ...config.environment, ...env },
        cwd: workingDirectory ?? process.cwd(),
        output: 'logs',
        stdin: options.prompt === undefined ? 'ignore' : 'pipe',
        ...(limits && { limits }),
      }),
    )
    return new Agent(supervisor, scope, handles, options)
  }

  get status(): AgentStatus {
    return this.#status
  }

  get pid(): number {
    return this.#tree.pid
  }

  get exitCode(): number | null | undefined {
    return this.#exit?.code
  }

  get signal(): NodeJS.Signals | null | undefined {
    return this.#exit?.signal
  }

  /** The agent's end closes its scope: by itself, by a stop, or by its timeout. */
  async #watch(timeoutMs: number | undefined): Promise<Report> {
    const { engine } = this.#supervisor
    const over = new AbortController()
    const late = new Promise<'late'>((resolve) => {
      if (timeoutMs !== undefined) engine.parts.clock.after(timeoutMs, over.signal, () => resolve('late'))
    })
    const how = await Promise.race([this.#tree.exit, late])
    over.abort()
    if (how !== 'late') this.#exit = how
    this.#status = 'stopping'
    const report = await engine.close(this.id, { trigger: how === 'late' ? 'terminated' : 'completed' })
    if (how === 'late') this.#exit = await Promise.race([this.#tree.exit, Promise.resolve(undefined)])
    this.#status = this.#finalStatus(report, how === 'late')
    return report
  }

  #finalStatus(report: Report, isLate: boolean): AgentStatus {
    if (!report.success) return 'stuck'
    if (this.#stopped) return 'terminated'
    return !isLate && this.#exit?.code === 0 ? 'completed' : 'failed'
  }

  async stop(options: StopOptions = {}): Promise<Report> {
    if (this.#status === 'running') {
      this.#stopped = true
      const { force, grace } = options
      await this.#supervisor.engine.close(this.id, {
        trigger: 'terminated',
        ...(force && { force }),
        ...(grace !== undefined && { graceMs: grace }),
      })
    }
    return await this.ended
  }

  /** The conversation: the prompt, then every line of output as it comes, until the agent is gone and its logs are read to the end. */
  async *messages(): AsyncGenerator<Message> {
    const { newId, clock } = this.#supervisor.engine.parts
    let sequenceNumber = 0
    const message = (type: Message['type'], content: string, metadata?: Message['metadata']): Message => ({
      id: newId(),
      agentId: this.id,
      sequenceNumber: ++sequenceNumber,
      type,
      content,
      createdAt: sequenceNumber === 1 ? this.#startedAt : clock.wall(),
      ...(metadata && { metadata }),
    })
    if (this.#prompt !== undefined) yield message('user', this.#prompt)
    const leaving = new AbortController()
    const streams = this.#logs.map(({ path, archive }) => tailLines({ path, archive, complete: this.ended }, leaving.signal))
    try {
      for await (const [index, { text, isTruncated }] of merge(streams)) {
        const metadata = { ...(index === 1 && { stream: 'stderr' }), ...(isTruncated && { truncated: true }) }
        yield message(index === 1 ? 'error' : 'response', text, Object.keys(metadata).length > 0 ? metadata : undefined)
      }
    } finally {
      leaving.abort()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    requireReleased(await this.stop())
  }
}

/** A plan that is refused leaves not even a scope behind. */
function planOrForget(supervisor: Supervisor, scope: BookScope, launch: Parameters<Supervisor['plan']>[1]): ReturnType<Supervisor['plan']> {
  try {
    return supervisor.plan(scope.id, launch)
  } catch (error) {
    supervisor.engine.close(scope.id, { trigger: 'launch-rollback' }).catch(() => {})
    throw error
  }
}

export function requireReleased(report: Report): Report {
  if (report.success) return report
  throw new EbbError('not_released', `Scope ${report.scope.id} could not be released: ${report.errors.join('; ')}`, { details: report })
}
