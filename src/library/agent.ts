import { resolve } from 'node:path'
import type { Launched } from '../agents/agents.ts'
import type { LaunchRequest } from '../agents/preflight.ts'
import type { Run } from '../agents/run.ts'
import { isOverWith } from '../agents/waiting.ts'
import type { Control } from '../control.ts'
import { within } from '../core/engine/race.ts'
import { type AgentStatus, isFinal } from '../core/model/agent.ts'
import { notReleased } from '../core/model/errors.ts'
import type { Message } from '../core/model/message.ts'
import type { Report } from '../core/model/report.ts'
import { isRemotePlacement } from '../core/ports/placement.ts'
import type { Configuration } from '../core/ports/provider.ts'
import { readLaunch } from '../server/http/launch.ts'

export interface LaunchOptions {
  /** The provider: `claude-code`, `codex`, `gemini-cli`, `opencode`, `command` or `synthetic`. */
  readonly type: string
  /** The prompt. For `command` it is written to standard input. */
  readonly prompt?: string
  /** The placement: `process`, `tmux`, `docker`, `ecs` or `remote`. */
  readonly placement?: string
  readonly configuration?: Configuration
}

export interface StopOptions {
  readonly force?: boolean
  /** Milliseconds for the steps polite and terminate together. */
  readonly grace?: number
}

/** How many messages one query reads. */
const pageSize = 500

/** How long one wait for messages lasts. The wait is then repeated, so this time limits nothing. */
const waitMs = 600_000

/**
 * How long a stop waits until the ledger has the close of the agent. When a stop joins the close of a parent scope, that close may write it
 * later.
 */
const ledgerPatienceMs = 2_000

/** One run of an agent, from launch to the proof that it is gone. Leaving its `await using` block stops it; a failure to release throws. */
export class Agent implements AsyncDisposable {
  readonly id: string
  /** Resolves with the report of the agent's first close, however the agent ended. */
  readonly ended: Promise<Report>
  readonly #control: Control
  readonly #run: Run
  readonly #until: AbortSignal
  #report: Report | undefined

  /** `until` aborts when Ebb is closed; then `messages` ends. */
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

  /** The pid of the agent's main process, if it has one. */
  get pid(): number | undefined {
    return this.#run.pid
  }

  get exitCode(): number | null | undefined {
    return this.#run.exit?.code
  }

  get signal(): NodeJS.Signals | null | undefined {
    return this.#run.exit?.signal
  }

  /** Ends the agent, with proof. Once the agent has ended, returns the report of the last stop, or that of the agent's first close. */
  async stop(options: StopOptions = {}): Promise<Report> {
    if (isFinal(this.status)) return this.#report ?? (await this.ended)
    const { force, grace } = options
    this.#report = await this.#control.agents.stop(this.id, { ...(force && { force }), ...(grace !== undefined && { graceMs: grace }) })
    if (this.#report.success) await within(this.#control.clock, ledgerPatienceMs, this.ended)
    return this.#report
  }

  /** Yields the prompt, then every line of output as it is written, until the agent has ended and its logs are read to the end. */
  async *messages(options: { readonly since?: number } = {}): AsyncGenerator<Message> {
    const { waiting, store } = this.#control
    for (let after = options.since ?? 0; ; ) {
      const page = await waiting.forMessages(this.id, waitMs, async () => {
        if (this.#until.aborted) return []
        // Read the status before the messages: no messages after the end means that there are none left.
        const expectsNoMore = isOverWith(this.status)
        const found = await store.messages(this.id, after, pageSize)
        return found.length > 0 || expectsNoMore ? found : undefined
      })
      if (page?.length === 0) return
      yield* page ?? []
      after = page?.at(-1)?.sequenceNumber ?? after
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const report = await this.stop()
    // A final status is written only with the proof, so an older failed report no longer counts: the reaper or a reset released it.
    if (!isFinal(this.status)) requireReleased(report)
  }
}

/** The namespace of everything that is launched by the library. */
export const namespace = 'default'

/** Launches an agent. Options are validated as in `POST /api/agents`; a relative folder is relative to this process. */
export async function launch(place: Place, options: LaunchOptions): Promise<Agent> {
  const { control, until, owner = {} } = place
  const { type, prompt = '', placement, configuration = {} } = options
  const { workingDirectory: folder } = configuration
  // A relative folder on another host is not relative to this process, so it is passed on as it is.
  const isHere = !isRemotePlacement(control.placementTable, placement)
  const body = {
    ...{ type, prompt },
    ...(placement !== undefined && { placement }),
    configuration: { ...configuration, ...(folder && { workingDirectory: isHere ? resolve(folder) : folder }) },
  }
  return new Agent(control, await control.launch({ ...readLaunch(body, namespace), ...owner }), until)
}

/** The owner of a launch: the control plane and, for a request, its scope. */
export interface Place {
  readonly control: Control
  readonly until: AbortSignal
  readonly owner?: Pick<LaunchRequest, 'requestId' | 'ownerScopeId'>
}

export function requireReleased(report: Report): Report {
  if (report.success) return report
  throw notReleased(report, `scope ${report.scope.id}`)
}
