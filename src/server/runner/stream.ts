import { once } from 'node:events'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { sentence } from '../../core/model/errors.ts'
import type { Clock } from '../../core/ports/clock.ts'
import { installationHeader } from '../../core/ports/runner.ts'
import { readOrder } from './body.ts'
import type { Connections } from './connections.ts'
import { EventWriter, event, ping } from './event-writer.ts'
import type { RunnerAgent, RunnerHost } from './host.ts'

export interface StreamDeps {
  readonly host: RunnerHost
  readonly clock: Clock
  readonly connections: Connections
  readonly pingMs: number
}

/**
 * One agent for one connection: what it writes is sent as it comes, its end once that is proven. The connection is the agent's
 * life: whoever hangs up, or is not there any more, has stopped it.
 */
export async function stream(deps: StreamDeps, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { host, connections } = deps
  const order = readOrder(request.body)
  const { socket } = request.raw
  const hungUp = new AbortController()
  const hangUp = (): void => hungUp.abort()
  socket.once('close', hangUp)
  if (socket.destroyed) hangUp()
  // Who has gone before it began wants nothing.
  if (hungUp.signal.aborted) return void reply.hijack()
  const agent = await host.launch(order, true)
  try {
    reply.hijack()
    if (hungUp.signal.aborted) return
    using _ = connections.watch(socket)
    reply.raw.writeHead(200, {
      ...(reply.getHeaders() as Record<string, string>),
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store, no-transform',
      // A proxy that collects the answer would keep its reader waiting.
      'x-accel-buffering': 'no',
      'x-agent-id': agent.id,
      [installationHeader]: host.installation,
    })
    reply.raw.flushHeaders()
    await send(deps, reply, agent, hungUp.signal)
  } catch (error) {
    request.log.error({ err: error, scope: agent.id }, 'The stream of an agent failed.')
    reply.raw.destroy()
  } finally {
    socket.removeListener('close', hangUp)
    await host.remove(agent.id)
  }
}

async function send({ clock, pingMs }: StreamDeps, { raw }: FastifyReply, agent: RunnerAgent, signal: AbortSignal): Promise<void> {
  const lines = new EventWriter()
  const write = async (bytes: Buffer | string): Promise<void> => {
    if (bytes.length === 0 || signal.aborted || raw.write(bytes)) return
    // Who reads slowly is waited for: the rest is in the log.
    await once(raw, 'drain', { signal }).catch(() => {})
  }
  const over = new AbortController()
  // Something is always on its way, so that a client that is gone is noticed.
  clock.every(pingMs, over.signal, () => {
    if (lines.isBetweenEvents && !raw.writableNeedDrain && !raw.writableEnded) raw.write(ping)
  })
  try {
    for await (const bytes of agent.output(signal)) await write(lines.add(bytes))
    if (signal.aborted) return
    await write(lines.rest())
    const outcome = await agent.outcome
    raw.end(outcome.isSuccess ? event('complete', {}) : event('error', { error: outcome.message }))
    await once(raw, 'finish', { signal }).catch((error: unknown) => {
      if (!signal.aborted) throw new Error(`The last word could not be sent: ${sentence(error)}`, { cause: error })
    })
  } finally {
    over.abort()
  }
}
