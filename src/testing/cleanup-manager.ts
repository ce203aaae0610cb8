import type { Report } from '../core/model/report.ts'
import { lookUntil } from './race.ts'
import { type Client, clientOf, messageOf, type Target } from './request.ts'
import { type CleanupStatus, issuesOf, look } from './world.ts'

export interface CleanupManagerOptions {
  /** For polite and terminate together, in ms; what is still there is then killed, and the answer comes at most 5 s later. */
  readonly resetTimeout?: number
  /** The most that a reset may take to show in the world, in ms. */
  readonly verifyTimeout?: number
  /** The most between two attempts, in ms; the second one is not needed when the world turns out clean meanwhile. */
  readonly backoff?: number
}

const attemptsAllowed = 2

/** On top of the reset's own time, for the kill and the answer. */
const answerMs = 15_000

/** Brings a server with `--test-endpoints`, or one namespace of it, back to nothing, and proves it. */
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

  /** Resets, verifies, then forces; twice. Throws, naming what is left. Safe to call at any time, also on a clean world. */
  async cleanupAll(): Promise<void> {
    for (let attempt = 1; attempt <= attemptsAllowed; attempt++) {
      await this.#reset(false)
      if (await this.#becomesClean(this.#verifyMs)) return
      await this.forceCleanup()
      if (await this.#becomesClean(attempt < attemptsAllowed ? this.#backoffMs : 0)) return
    }
    const issues = await issuesOf(this.#client, await look(this.#client))
    if (issues.length > 0) throw new Error(`The environment could not be reset in ${attemptsAllowed} attempts: ${issues.join('; ')}.`)
  }

  async isClean(): Promise<boolean> {
    return (await this.#client.ask<CleanupStatus>('get', '/api/cleanup/status')).isClean
  }

  /** Kills what is there, without asking it to leave first; the report says what became of it. */
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
    return (await lookUntil(ms, async () => (await this.isClean()) || undefined)) ?? false
  }
}

export class NoTestEndpoints extends Error {
  constructor() {
    super('This server cannot be reset: start it with "ebb serve --test-endpoints", or use cleanupRealAgents, which needs none.')
  }
}
