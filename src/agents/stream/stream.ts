import { type ErrorCode, isEbbError, sentence } from '../../core/model/errors.ts'
import type { Message } from '../../core/model/message.ts'
import type { AgentStore, Progress } from '../../core/ports/agents.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import { nextTurn } from '../../core/ports/turn.ts'
import { LogWatch } from './log-watch.ts'
import { LogReader, type Source } from './reader.ts'

/**
 * Reads, parses, saves and emits the output of all agents. Messages are saved in one transaction with the reading position, and
 * emitted only after that, in order. So a restarted supervisor continues after the last save, without loss and without repeats.
 */

export interface StreamDeps {
  readonly agents: AgentStore
  readonly clock: Clock
  readonly log: Log
  readonly onSaved: (progress: Progress, messages: readonly Message[]) => void
  /** Called when the agent has written something, even before the line is complete. */
  readonly onRead?: (agentId: string) => void
  /** Called when the agent has exceeded an output limit. */
  readonly onTooMuch: (agentId: string) => void
}

/** How long collecting one batch may block the event loop. Saving the batch takes further time. */
const batchBudgetMs = 8
const batchMessages = 4_000

/** The pause before a save is repeated because the database cannot be written. No output is lost meanwhile: the lines stay in the logs. */
const saveRetryMs = 100

interface Pending {
  readonly progress: Progress
  readonly reader?: LogReader
  readonly saved: PromiseWithResolvers<readonly Message[]>
}

/** Errors of the database that may be temporary. A save that fails with one of them is repeated. */
const temporaryErrors: readonly ErrorCode[] = ['ledger_busy', 'ledger_unavailable', 'ledger_read_only']

/** The messages as they were saved, or the error because of which they cannot be saved. */
type Saved = readonly Message[] | Error

export class Stream implements AsyncDisposable {
  readonly #deps: StreamDeps
  readonly #watch: LogWatch
  readonly #readers = new Map<string, LogReader>()
  readonly #ready = new Set<LogReader>()
  #queue: Pending[] = []
  #pumping: Promise<void> | undefined
  #isClosing = false

  constructor(deps: StreamDeps) {
    this.#deps = deps
    this.#watch = new LogWatch(deps.clock)
  }

  /** Turns everything that the agent writes from now on into messages. */
  follow(source: Source): LogReader {
    const reader = new LogReader(source)
    this.#readers.set(source.path, reader)
    this.#watch.add(source.path, () => this.#wake(reader))
    this.#wake(reader)
    return reader
  }

  /** Reads a log whose writer is proven gone to its end. Resolves when every line is saved; rejects when one cannot be saved (G8). */
  async finish(path: string, open: () => Promise<Source | undefined>): Promise<void> {
    let reader = this.#readers.get(path)
    if (!reader) {
      const source = await open()
      if (!source) return
      reader = this.#readers.get(path) ?? this.follow(source)
    }
    reader.endOfWriting()
    this.#wake(reader)
    await reader.finished
  }

  /** Saves messages that come from no log. Resolves with the saved messages, or with none when the agent is gone. */
  append(progress: Progress): Promise<readonly Message[]> {
    const saved = Promise.withResolvers<readonly Message[]>()
    this.#queue.push({ progress, saved })
    this.#pump()
    return saved.promise
  }

  /** Stops reading all logs of an agent whose rows are deleted. */
  leave(agentId: string): void {
    for (const reader of this.#readers.values()) if (reader.source.agentId === agentId) this.#drop(reader)
  }

  #wake(reader: LogReader): void {
    this.#ready.add(reader)
    this.#pump()
  }

  #pump(): void {
    if (this.#isClosing) return
    this.#pumping ??= this.#run().finally(() => {
      this.#pumping = undefined
      if (this.#ready.size > 0 || this.#queue.length > 0) this.#pump()
    })
  }

  async #run(): Promise<void> {
    while (!this.#isClosing && (this.#ready.size > 0 || this.#queue.length > 0)) {
      await nextTurn()
      const batch = this.#collect()
      if (batch.length > 0) await this.#save(batch)
    }
  }

  /** Reads a little from each log in turn, so that an agent that writes without end does not delay the others. */
  #collect(): readonly Pending[] {
    const batch = this.#queue
    this.#queue = []
    const untilMs = this.#deps.clock.now() + batchBudgetMs
    let messages = 0
    for (const reader of this.#ready) {
      if (messages >= batchMessages || this.#deps.clock.now() > untilMs) break
      this.#ready.delete(reader)
      const progress = this.#read(reader)
      // A finished reader is kept while its last lines are in this batch. The reader is dropped when they are saved.
      if (!progress && reader.isFinished && !batch.some((pending) => pending.reader === reader)) this.#drop(reader)
      if (!progress) continue
      if (progress === 'more') {
        this.#ready.add(reader)
        continue
      }
      // The reader is queued again behind the others, until one of its reads returns nothing.
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
      // `onTooMuch` is called at once, not when reading reaches the limit, because the agent fills the disk until it is ended.
      if (reader.isOverLimit) this.#deps.onTooMuch(reader.source.agentId)
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
    if ((messages.at(-1)?.sequenceNumber ?? 0) > reader.source.limitMessages) reader.stopAtMessageLimit()
    // When messages were given and none was saved, the agent is gone or another reader has moved the position.
    if (reader.isFinished || (messages.length === 0 && progress.messages.length > 0)) this.#drop(reader)
  }

  /** Repeats the save while the database cannot be written. When it refuses the batch, saves each part by itself. */
  async #saveUntilDone(batch: readonly Pending[]): Promise<readonly Saved[] | undefined> {
    for (let isFirst = true; !this.#isClosing; isFirst = false) {
      try {
        return await this.#deps.agents.save(batch.map(({ progress }) => progress))
      } catch (error) {
        if (!temporaryErrors.some((code) => isEbbError(error, code))) return await this.#saveEach(batch, error)
        if (isFirst)
          this.#deps.log.warn('The database cannot be written; messages stay in their logs until it can.', { error: sentence(error) })
        await new Promise<void>((resolve) => this.#deps.clock.after(saveRetryMs, new AbortController().signal, resolve))
      }
    }
    return undefined
  }

  /** Saves each part by itself, so that one message that cannot be saved does not block the other agents. */
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

  /** Ends a reader whose log was not saved completely. `finish` tries again from the last saved position. */
  #fail(reader: LogReader, error: unknown): void {
    this.#deps.log.error('A log could not be read and saved; it is tried again when the agent has ended.', {
      agent: reader.source.agentId,
      error: sentence(error),
    })
    reader.end(error)
  }

  #drop(reader: LogReader): void {
    const { path } = reader.source
    this.#ready.delete(reader)
    reader.end()
    reader.settle()
    // A newer reader may already follow this log. Then the watch of the log must stay.
    if (this.#readers.get(path) !== reader) return
    this.#readers.delete(path)
    this.#watch.remove(path)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosing = true
    this.#watch[Symbol.dispose]()
    await this.#pumping
    for (const reader of this.#readers.values()) {
      reader.end(new Error('Ebb is shutting down before every line of the log is saved; the next start continues.'))
      this.#drop(reader)
    }
  }
}
