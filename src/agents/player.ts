import type { AgentResult } from '../core/model/agent.ts'
import type { NewMessage } from '../core/ports/agents.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Provider, ScheduledEvent } from '../core/ports/provider.ts'
import type { Run } from './run.ts'
import { messageId } from './stream/message-id.ts'
import type { Stream } from './stream/stream.ts'

/** The most events of one batch. */
const maxBatch = 500

export interface Play {
  readonly run: Run
  readonly provider: Provider
  readonly events: readonly ScheduledEvent[]
  readonly stream: Stream
  readonly clock: Clock
}

/**
 * Plays the schedule of a synthetic agent: each event at its delay after the start, in order, and saved before the next one. Stops
 * when the agent ends.
 */
export async function play({ run, provider, events, stream, clock }: Play): Promise<void> {
  const ordered = events.toSorted((one, other) => one.delay - other.delay)
  const startMs = clock.now()
  for (let next = 0; next < ordered.length; ) {
    await until(clock, startMs + (ordered[next]?.delay ?? 0), run.signal)
    if (run.signal.aborted) return
    const due: ScheduledEvent[] = []
    for (let event = ordered[next]; event && due.length < maxBatch && startMs + event.delay <= clock.now(); event = ordered[next]) {
      due.push(event)
      next += 1
      // A status or an end must be emitted after the messages before it are saved, so it ends the batch.
      if (event.type !== 'message') break
    }
    if (await perform(run, provider, stream, due, next - due.length)) return
  }
}

/** Performs the events that are due. Returns true when one of them ended the agent. */
async function perform(run: Run, provider: Provider, stream: Stream, due: readonly ScheduledEvent[], first: number): Promise<boolean> {
  const messages: NewMessage[] = []
  let verdict: AgentResult | undefined
  let newStatus: 'initializing' | 'running' | undefined
  due.forEach((event, index) => {
    if (event.type === 'status') {
      const status = event.data?.status
      if (status === 'initializing' || status === 'running') newStatus = status
      else if (status === 'completed' || status === 'failed') verdict = { isSuccess: status === 'completed' }
      return
    }
    if (event.type === 'complete') {
      verdict = { isSuccess: event.data?.success !== false }
      return
    }
    const parsed = provider.parse(JSON.stringify(event))
    verdict = parsed.result ?? verdict
    messages.push(...parsed.messages.map((message, part) => ({ ...message, id: messageId(run.id, 'schedule', first + index, part) })))
  })
  if (messages.length > 0) await stream.append({ agentId: run.id, messages, ...(verdict && { result: verdict }) })
  if (newStatus) run.setStatus(newStatus)
  if (verdict) run.endsWith(verdict)
  return verdict !== undefined
}

function until(clock: Clock, atMs: number, signal: AbortSignal): Promise<void> {
  const leftMs = atMs - clock.now()
  if (leftMs <= 0) return Promise.resolve()
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true })
    clock.after(leftMs, signal, resolve)
  })
}
