import { type ErrorCode, isEbbError, sentence } from '../../core/model/errors.ts'
import type { Message } from '../../core/model/message.ts'
import type { AgentStore, Progress } from '../../core/ports/agents.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import { nextTurn } from '../../core/ports/turn.ts'
import { LogWatch } from './log-watch.ts'
import { LogReader, type Source } from './reader.ts'

/**
 * tail → parse → save → emit, for all agents. What was read is saved in one transaction with the position of the
 * reading, and emitted only then, in order: whoever is restarted goes on where the last save was, without loss and
 * without repeats.
 */

export interface StreamDeps {
  readonly agents: AgentStore
  readonly clock: Clock
  readonly log: Log
  readonly onSaved: (progress: Progress, messages: readonly Message[]) => void
  /** It wrote something; that need not be a line yet. */
  readonly onRead?: (agentId: string) => void
  /** There is more output than may be read. */
  readonly onTooMuch: (agentId: string) => void
}

/** One batch keeps the event loop busy for so long at most, besides its save. */
const batchBudgetMs = 8
const batchMessages = 4_000

/** A database that cannot be written is tried again this soon; nothing is lost meanwhile, it is in the logs. */
const saveRetryMs = 100

interface Pending {
  readonly progress: Progress
  readonly reader?: LogReader
  readonly saved: PromiseWithResolvers<readonly Message[]>
}

/** The database is not well, and may be again. */
const unwell: readonly ErrorCode[] = ['ledger_busy', 'ledger_unavailable', 'ledger_read_only']

/** The messages as they were saved, or why they cannot be. */
type Saved = readonly Message[] | Error

export class Stream implements AsyncDisposable {
  readonly #deps: StreamDeps
  readonly #watch: LogWatch
  readonly #readers = new Map<string, LogReader>()
  readonly #ready = new Set<LogReader>()
  #queue: Pending[] = []
  #pumping: Promise<void> | undefined
  #isLeaving = false

  constructor(deps: StreamDeps) {
    this.#deps = deps
    this.#watch = new LogWatch(deps.clock)
  }

  /** From now on what the agent writes becomes messages. */
  follow(source: Source): LogReader {
    const reader = new LogReader(source)
    this.#readers.set(source.path, reader)
    this.#watch.add(source.path, () => this.#wake(reader))
    this.#wake(reader)
    return reader
  }

  /** The writer is gone and has been proven so: resolves when every line it wrote is saved, and rejects when one cannot be (G8). */
  async finish(path: string, open: () => Promise<Source | undefined>): Promise<void> {
    let reader = this.#readers.get(path)
    if (!reader) {
      const source = await open()
      if (!source) return
      reader = this.#readers.get(path) ?? this.follow(source)
    }
    reader.endOfWriting()
    this.#wake(reader)
    await reader.over
  }

  /** Messages that come from no log. Resolves with them as they were saved; with none when the agent is gone. */
  append(progress: Progress): Promise<readonly Message[]> {
    const saved = Promise.withResolvers<readonly Message[]>()
    this.#queue.push({ progress, saved })
    this.#pump()
    return saved.promise
  }

  /** The agent is gone with its rows: nothing of it is read any more. */
  leave(agentId: string): void {
    for (const reader of this.#readers.values()) if (reader.source.agentId === agentId) this.#drop(reader)
  }

  #wake(reader: LogReader): void {
    this.#ready.add(reader)
    this.#pump()
  }

  #pump(): void {
    if (this.#isLeaving) return
    this.#pumping ??= this.#run().finally(() => {
      this.#pumping = undefined
      if (this.#ready.size > 0 || this.#queue.length > 0) this.#pump()
    })
  }

  async #run(): Promise<void> {
    while (!this.#isLeaving && (this.#ready.size > 0 || this.#queue.length > 0)) {
      await nextTurn()
      const batch = this.#collect()
      if (batch.length > 0) await this.#save(batch)
    }
  }

  /** A little of everybody, in turn: an agent that writes without end does not keep the others waiting. */
  #collect(): readonly Pending[] {
    const batch = this.#queue
    this.#queue = []
    const untilMs = this.#deps.clock.now() + batchBudgetMs
    let messages = 0
    for (const reader of this.#ready) {
      if (messages >= batchMessages || this.#deps.clock.now() > untilMs) break
      this.#ready.delete(reader)
      const progress = this.#read(reader)
      // What was read of it a moment ago is in this batch: it is over when that is saved, not before.
      if (!progress && reader.isOver && !batch.some((pending) => pending.reader === reader)) this.#drop(reader)
      if (!progress) continue
      if (progress === 'more') {
        this.#ready.add(reader)
        continue
      }
      // Behind the others, until a read comes back empty.
      this.#ready.add(reader)
      messages += progress.messages.length
      batch.push({ progress, reader, saved: Promise.withResolvers() })
    }
    return batch
  }

  #read(reader: LogReader): Progress | 'more' | undefined {
    try {
      const progress = reader.read()
      if (progress) this.#deps.onRead?.(reader.source.agentId)
      // At once, not when the reading gets there: until it is ended the agent goes on filling the disk.
      if (reader.isTooMuch) this.#deps.onTooMuch(reader.source.agentId)
      return progress
    } catch (error) {
      this.#fail(reader, error)
      return undefined
    }
  }

  async #save(batch: readonly Pending[]): Promise<void> {
    const saved = await this.#saveUntilDone(batch)
    if (saved) for (const [index, pending] of batch.entries()) this.#saved(pending, saved[index] ?? [])
  }

  #saved({ progress, reader, saved }: Pending, messages: Saved): void {
    if (messages instanceof Error) {
      if (reader) this.#fail(reader, messages)
      if (reader) this.#drop(reader)
      else saved.reject(messages)
      return
    }
    if (messages.length > 0) this.#deps.onSaved(progress, messages)
    saved.resolve(messages)
    if (!reader) return
    if ((messages.at(-1)?.sequenceNumber ?? 0) > reader.source.limitMessages) reader.enough()
    // Nothing was saved of something: the agent is gone, or somebody else reads its log.
    if (reader.isOver || (messages.length === 0 && progress.messages.length > 0)) this.#drop(reader)
  }

  /** A database that cannot be written is waited for; one that refuses something is asked for each by itself. */
  async #saveUntilDone(batch: readonly Pending[]): Promise<readonly Saved[] | undefined> {
    for (let isFirst = true; !this.#isLeaving; isFirst = false) {
      try {
        return await this.#deps.agents.save(batch.map(({ progress }) => progress))
      } catch (error) {
        if (!unwell.some((code) => isEbbError(error, code))) return await this.#saveEach(batch, error)
        if (isFirst) this.#deps.log.warn('Messages wait in their logs: the database cannot be written.', { error: sentence(error) })
        await new Promise<void>((resolve) => this.#deps.clock.after(saveRetryMs, new AbortController().signal, resolve))
      }
    }
    return undefined
  }

  /** One agent's message that cannot be saved must not keep everybody else's waiting. */
  async #saveEach(batch: readonly Pending[], error: unknown): Promise<readonly Saved[] | undefined> {
    if (batch.length === 1) return [error instanceof Error ? error : new Error(sentence(error))]
    const all: Saved[] = []
    for (const pending of batch) {
      const saved = await this.#saveUntilDone([pending])
      if (!saved) return undefined
      all.push(...saved)
    }
    return all
  }

  /** Its log is not complete as messages: it is tried again from where it was saved when the log is finished. */
  #fail(reader: LogReader, error: unknown): void {
    this.#deps.log.error('A log cannot be read any more.', { agent: reader.source.agentId, error: sentence(error) })
    reader.end(error)
  }

  #drop(reader: LogReader): void {
    const { path } = reader.source
    this.#ready.delete(reader)
    reader.end()
    reader.settle()
    // Another one may follow the log by now.
    if (this.#readers.get(path) !== reader) return
    this.#readers.delete(path)
    this.#watch.remove(path)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isLeaving = true
    this.#watch[Symbol.dispose]()
    await this.#pumping
    for (const reader of this.#readers.values()) {
      reader.end(new Error('Ebb leaves before every line of the log is saved.'))
      this.#drop(reader)
    }
  }
}
