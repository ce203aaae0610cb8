import type { Report } from '../core/model/report.ts'
import { pollUntil } from './race.ts'
import { type Client, clientOf, messageOf, type Target } from './request.ts'
import { type CleanupStatus, issuesOf, observe } from './world.ts'

export interface CleanupManagerOptions {
  /**
   * The time for the polite and terminate steps of a reset together, in ms. The reset then kills the processes that are left, and answers
   * at most 5 s later.
   */
  readonly resetTimeout?: number
  /** The longest wait after a reset until the server is clean, in ms. */
  readonly verifyTimeout?: number
  /** The longest wait between two attempts, in ms. The second attempt is skipped when the server becomes clean during the wait. */
  readonly backoff?: number
}

const attemptsAllowed = 2

/** The time that a request may take beyond `resetTimeout`, for the kill and the answer. */
const answerMs = 15_000

/** Removes everything from a server with `--test-endpoints`, or from one of its namespaces, and verifies that. */
export class TestCleanupManager {
  readonly #client: Client
  readonly #resetMs: number
  readonly #verifyMs: number
  readonly #backoffMs: number

  constructor(target: Target, { resetTimeout = 10_000, verifyTimeout = 5_000, backoff = 500 }: CleanupManagerOptions = {}) {
    this.#client = clientOf(target)
    this.#resetMs = resetTimeout
    this.#verifyMs = verifyTimeout
    this.#backoffMs = backoff
  }

  /**
   * Resets the namespace or the server and verifies that it is clean, else resets by force. Does this at most twice. Throws an error that
   * names what is left. Safe to call at any time.
   */
  async cleanupAll(): Promise<void> {
    for (let attempt = 1; attempt <= attemptsAllowed; attempt++) {
      await this.#reset(false)
      if (await this.#becomesClean(this.#verifyMs)) return
      await this.forceCleanup()
      if (await this.#becomesClean(attempt < attemptsAllowed ? this.#backoffMs : 0)) return
    }
    const issues = await issuesOf(this.#client, await observe(this.#client))
    if (issues.length > 0) throw new Error(`The environment could not be reset in ${attemptsAllowed} attempts: ${issues.join('; ')}.`)
  }

  async isClean(): Promise<boolean> {
    return (await this.#client.ask<CleanupStatus>('get', '/api/cleanup/status')).isClean
  }

  /** Resets by force: kills everything without a polite step first. Returns the report of the server. */
  async forceCleanup(): Promise<Report> {
    return await this.#reset(true)
  }

  async #reset(force: boolean): Promise<Report> {
    const data = { force, waitForCompletion: true, timeout: this.#resetMs }
    const { isOk, status, body } = await this.#client.call('post', '/api/test/reset-environment', {
      data,
      timeoutMs: this.#resetMs + answerMs,
    })
    if (isOk) return body as Report
    if (status === 404) throw new NoTestEndpoints()
    throw new Error(`The reset was answered with ${status}: ${messageOf(body)}`)
  }

  async #becomesClean(ms: number): Promise<boolean> {
    return (await pollUntil(ms, async () => (await this.isClean()) || undefined)) ?? false
  }
}

export class NoTestEndpoints extends Error {
  constructor() {
    super('This server cannot be reset: start it with "ebb serve --test-endpoints", or use cleanupRealAgents, which needs none.')
  }
}
