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
 * Streams one agent over one connection: its output as it comes, and its end once that is proven. The agent is stopped when the
 * client hangs up or vanishes.
 */
export async function stream(deps: StreamDeps, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { host, connections } = deps
  const order = readOrder(request.body)
  const { socket } = request.raw
  const hungUp = new AbortController()
  const hangUp = (): void => hungUp.abort()
  socket.once('close', hangUp)
  if (socket.destroyed) hangUp()
  // The client hung up before the launch.
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
      // Tells a proxy (nginx) not to buffer the stream.
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
    // Waits for a slow client: the rest of the output is in the log. The wait is aborted when the client hangs up.
    await once(raw, 'drain', { signal }).catch(() => {})
  }
  const ended = new AbortController()
  // Each ping needs an acknowledgement, so that a vanished client is noticed.
  clock.every(pingMs, ended.signal, () => {
    if (lines.isBetweenEvents && !raw.writableNeedDrain && !raw.writableEnded) raw.write(ping)
  })
  try {
    for await (const bytes of agent.output(signal)) await write(lines.add(bytes))
    if (signal.aborted) return
    await write(lines.rest())
    const outcome = await agent.outcome
    raw.end(outcome.isSuccess ? event('complete', {}) : event('error', { error: outcome.message }))
    await once(raw, 'finish', { signal }).catch((error: unknown) => {
      if (!signal.aborted) throw new Error(`The final event could not be sent: ${sentence(error)}`, { cause: error })
    })
  } finally {
    ended.abort()
  }
}
