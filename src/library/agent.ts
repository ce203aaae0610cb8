import { resolve } from 'node:path'
import type { Launched } from '../agents/agents.ts'
import type { LaunchRequest } from '../agents/preflight.ts'
import type { Run } from '../agents/run.ts'
import { isOverWith } from '../agents/waiting.ts'
import type { Control } from '../control.ts'
import { within } from '../core/engine/race.ts'
import { type AgentStatus, isFinal } from '../core/model/agent.ts'
import { EbbError } from '../core/model/errors.ts'
import type { Message } from '../core/model/message.ts'
import type { Report } from '../core/model/report.ts'
import { isRemotePlacement } from '../core/ports/placement.ts'
import type { Configuration } from '../core/ports/provider.ts'
import { readLaunch } from '../server/http/launch.ts'

export interface LaunchOptions {
  /** Which program: `claude-code`, `codex`, `gemini-cli`, `opencode`, `command` or `synthetic`. */
  readonly type: string
  /** For `command` it goes to the standard input. */
  readonly prompt?: string
  /** Where it runs: `process`, `tmux`, `docker`, `ecs` or `remote`. */
  readonly placement?: string
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

/** How long a stop waits for the books of a close that it only joined; they come with the scope above. */
const ledgerPatienceMs = 2_000

/** One run, from launch to the proof that it is gone. Leaving its block stops it; a failure to release throws. */
export class Agent implements AsyncDisposable {
  readonly id: string
  /** Settles with the first close's report, however the agent ended. */
  readonly ended: Promise<Report>
  readonly #control: Control
  readonly #run: Run
  readonly #until: AbortSignal
  #report: Report | undefined

  /** `until`: nothing is read any more. */
  constructor(control: Control, { agent, run }: Launched, until: AbortSignal) {
    this.id = agent.id
    this.#control = control
    this.#run = run
    this.#until = until
    this.ended = run.firstClose.promise
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

  /** For one that has ended: the report that was answered last, or that of its first close. */
  async stop(options: StopOptions = {}): Promise<Report> {
    if (isFinal(this.status)) return this.#report ?? (await this.ended)
    const { force, grace } = options
    this.#report = await this.#control.agents.stop(this.id, { ...(force && { force }), ...(grace !== undefined && { graceMs: grace }) })
    if (this.#report.success) await within(this.#control.clock, ledgerPatienceMs, this.ended)
    return this.#report
  }

  /** The conversation: the prompt, then every line of output as it comes, until the agent is gone and its logs are read to the end. */
  async *messages(options: { readonly since?: number } = {}): AsyncGenerator<Message> {
    const { waiting, store } = this.#control
    for (let after = options.since ?? 0; ; ) {
      const page = await waiting.forMessages(this.id, waitMs, async () => {
        if (this.#until.aborted) return []
        // Asked first: what is empty after the end was seen is really empty.
        const isOver = isOverWith(this.status)
        const found = await store.messages(this.id, after, pageSize)
        return found.length > 0 || isOver ? found : undefined
      })
      if (page?.length === 0) return
      yield* page ?? []
      after = page?.at(-1)?.sequenceNumber ?? after
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const report = await this.stop()
    // Whoever released it after all, the reaper or a reset: its end is written with the proof, and older reports are history.
    if (!isFinal(this.status)) requireReleased(report)
  }
}

/** What a process launches by the library is in one namespace, its own. */
export const namespace = 'default'

/** What is launched is validated as `POST /api/agents` does it; a folder is relative to this process. */
export async function launch(place: Place, options: LaunchOptions): Promise<Agent> {
  const { control, until, owner = {} } = place
  const { type, prompt = '', placement, configuration = {} } = options
  const { workingDirectory: folder } = configuration
  // Only on this host is it relative to us.
  const isHere = !isRemotePlacement(control.placementTable, placement)
  const body = {
    ...{ type, prompt },
    ...(placement !== undefined && { placement }),
    configuration: { ...configuration, ...(folder && { workingDirectory: isHere ? resolve(folder) : folder }) },
  }
  return new Agent(control, await control.agents.launch({ ...readLaunch(body, namespace), ...owner }), until)
}

/** Where agents are launched. */
export interface Place {
  readonly control: Control
  readonly until: AbortSignal
  readonly owner?: Pick<LaunchRequest, 'requestId' | 'ownerScopeId'>
}

export function requireReleased(report: Report): Report {
  if (report.success) return report
  throw new EbbError('not_released', `Scope ${report.scope.id} could not be released: ${report.errors.join('; ')}`, { details: report })
}
