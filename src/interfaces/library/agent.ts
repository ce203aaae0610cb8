import type { Launched } from '../../control/agents.ts'
import type { Control } from '../../control/control.ts'
import type { LaunchRequest } from '../../control/preflight.ts'
import type { Run } from '../../control/run.ts'
import type { AgentStatus } from '../../domain/agent.ts'
import { EbbError } from '../../domain/errors.ts'
import type { Message } from '../../domain/message.ts'
import type { Report } from '../../domain/report.ts'
import type { Configuration } from '../../ports/provider.ts'

export interface LaunchOptions {
  /** Which program: `claude-code`, `codex`, `gemini-cli`, `opencode`, `command` or `synthetic`. */
  readonly type: string
  /** For `command` it goes to the standard input. */
  readonly prompt?: string
  readonly configuration?: Configuration
}

export interface StopOptions {
  readonly force?: boolean
  /** Milliseconds for polite and terminate together. */
  readonly grace?: number
}

/** So many messages are read from the store at a time. */
const pageSize = 500

/** A wait without news ends and begins again; it bounds nothing. */
const waitMs = 600_000

/** One run, from launch to the proof that it is gone. Leaving its block stops it; a failure to release throws. */
export class Agent implements AsyncDisposable {
  readonly id: string
  /** Settles with the first close's report, however the agent ended. */
  readonly ended: Promise<Report>
  readonly #control: Control
  readonly #run: Run
  #isOver = false

  constructor(control: Control, { agent, run }: Launched) {
    this.id = agent.id
    this.#control = control
    this.#run = run
    this.ended = run.firstClose.promise
    this.ended.then(() => {
      this.#isOver = true
    })
  }

  get status(): AgentStatus {
    return this.#run.status
  }

  /** Of its main process, where it has one. */
  get pid(): number | undefined {
    return this.#run.pid
  }

  get exitCode(): number | null | undefined {
    return this.#run.exit?.code
  }

  get signal(): NodeJS.Signals | null | undefined {
    return this.#run.exit?.signal
  }

  async stop(options: StopOptions = {}): Promise<Report> {
    const { force, grace } = options
    const again = this.status === 'stuck'
    if (this.#isOver && !again) return await this.ended
    const report = await this.#control.agents.stop(this.id, { ...(force && { force }), ...(grace !== undefined && { graceMs: grace }) })
    return again ? report : await this.ended
  }

  /** The conversation: the prompt, then every line of output as it comes, until the agent is gone and its logs are read to the end. */
  async *messages(options: { readonly since?: number } = {}): AsyncGenerator<Message> {
    const { waiting, store } = this.#control
    for (let after = options.since ?? 0; ; ) {
      const page = await waiting.forMessages(this.id, waitMs, async () => {
        // Asked first: what is empty after the end was seen is really empty.
        const isOver = this.#isOver
        const found = await store.messages(this.id, after, pageSize)
        return found.length > 0 || isOver ? found : undefined
      })
      if (page?.length === 0) return
      yield* page ?? []
      after = page?.at(-1)?.sequenceNumber ?? after
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    requireReleased(await this.stop())
  }
}

/** What a process launches by the library is in one namespace, its own. */
export const namespace = 'default'

export async function launch(control: Control, options: LaunchOptions, owner: Owner = {}): Promise<Agent> {
  const { type, prompt = '', configuration = {} } = options
  return new Agent(control, await control.agents.launch({ type, prompt, namespace, configuration, ...owner }))
}

type Owner = Pick<LaunchRequest, 'requestId' | 'ownerScopeId'>

export function requireReleased(report: Report): Report {
  if (report.success) return report
  throw new EbbError('not_released', `Scope ${report.scope.id} could not be released: ${report.errors.join('; ')}`, { details: report })
}
