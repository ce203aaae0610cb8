import { EventEmitter } from 'node:events'
import type { Socket } from 'socket.io'
import { expect, it } from 'vitest'
import { Subscriptions } from '../../../../src/agents/subscriptions.ts'
import type { Message } from '../../../../src/core/model/message.ts'
import { Outbox } from '../../../../src/server/socket/outbox.ts'
import { Subscription } from '../../../../src/server/socket/subscription.ts'

/** A client whose connection takes the waiting packets only when the test calls `take`. */
class SlowClient {
  readonly conn = new EventEmitter()
  connected = true
  readonly waiting: { readonly name: string; readonly text: string }[] = []
  readonly taken: string[] = []

  emit(name: string, event: unknown): void {
    const text = JSON.stringify(event)
    this.conn.emit('packetCreate', { data: text })
    this.waiting.push({ name, text })
  }

  disconnect(): void {
    this.connected = false
    this.conn.emit('close')
  }

  /** Takes all waiting packets, as engine.io does. */
  take(): void {
    for (const { name, text } of this.waiting.splice(0)) this.taken.push(name === 'agent:message' ? `message ${numberIn(text)}` : name)
    this.conn.emit('drain')
  }

  get waitingBytes(): number {
    return this.waiting.reduce((sum, { text }) => sum + text.length, 0)
  }

  get socket(): Socket {
    return this as unknown as Socket
  }
}

function numberIn(text: string): number {
  return (JSON.parse(text) as { message: Message }).message.sequenceNumber
}

/** A saved conversation, read in pages of the same size as those of the store. */
function conversation(count: number, bytes: number): (since: number, limit: number) => Promise<readonly Message[]> {
  const content = 'x'.repeat(bytes)
  const perPage = Math.max(1, Math.ceil(1_048_576 / Math.max(1, bytes)))
  return async (since, limit) =>
    Array.from({ length: Math.max(0, Math.min(perPage, limit, count - since)) }, (_, index) => message(since + index + 1, content))
}

function message(sequenceNumber: number, content = ''): Message {
  return { id: `m${sequenceNumber}`, agentId: 'a', sequenceNumber, type: 'response', content, createdAt: '2026-11-15T09:00:00.000Z' }
}

/** Waits until the server does nothing more without the client. */
async function quiet(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise<void>((resolve) => setImmediate(resolve))
}

function subscribe(client: SlowClient, outbox: Outbox, readPage: ReturnType<typeof conversation>, since = 0): Subscription {
  const agent = { id: 'a', namespace: 'default' }
  return new Subscription({ socket: client.socket, outbox, agent, since, readPage, subscriptions: new Subscriptions(), onDrop: () => {} })
}

function watched(): { readonly client: SlowClient; readonly outbox: Outbox } {
  const client = new SlowClient()
  return { client, outbox: new Outbox(client.socket) }
}

it('outbox: all subscriptions of one client together stay within its limit', async () => {
  const { client, outbox } = watched()
  for (let n = 0; n < 30; n++) subscribe(client, outbox, conversation(6, 500_000)).replay()
  let most = 0
  for (let turn = 0; client.taken.length < 30 * 6; turn++) {
    await quiet()
    most = Math.max(most, client.waitingBytes)
    client.take()
    expect(turn).toBeLessThan(1_000)
  }
  // The bytes that wait are at most the limit of four megabytes, and the page that exceeds it.
  expect(most).toBeLessThan(6_500_000)
  expect(client.taken).toHaveLength(30 * 6)
})

it('subscription: a client that is behind gets all messages in order, and the end last', async () => {
  const { client, outbox } = watched()
  const subscription = subscribe(client, outbox, conversation(30, 900_000))
  subscription.replay()
  subscription.take([message(30)])
  subscription.afterMessages(() => client.emit('agent:complete', {}))
  for (let turn = 0; turn < 30; turn++) {
    await quiet()
    client.take()
  }
  expect(client.taken).toEqual([...Array.from({ length: 30 }, (_, index) => `message ${index + 1}`), 'agent:complete'])
})

it('subscription: a client that subscribes again while it is behind gets the end once, after the messages', async () => {
  const { client, outbox } = watched()
  const first = subscribe(client, outbox, conversation(10, 900_000))
  first.replay()
  first.afterMessages(() => client.emit('agent:complete', {}))
  await quiet()
  const received = client.waiting.length
  expect(received).toBeLessThan(10)
  const second = subscribe(client, outbox, conversation(10, 900_000), 3)
  second.replay()
  first.endFor(second)
  for (let turn = 0; turn < 20; turn++) {
    client.take()
    await quiet()
  }
  const again = Array.from({ length: 7 }, (_, index) => `message ${index + 4}`)
  expect(client.taken.slice(received)).toEqual([...again, 'agent:complete'])
})

it('subscription: a client that unsubscribes while it is behind gets the waiting events and no more messages', async () => {
  const { client, outbox } = watched()
  const subscription = subscribe(client, outbox, conversation(10, 900_000))
  subscription.replay()
  await quiet()
  subscription.afterMessages(() => client.emit('agent:status', {}))
  subscription.end()
  client.emit('unsubscribed', {})
  for (let turn = 0; turn < 20; turn++) {
    client.take()
    await quiet()
  }
  expect(client.taken.slice(-2)).toEqual(['agent:status', 'unsubscribed'])
  expect(client.taken.length).toBeLessThan(10)
})

it('outbox: a client is disconnected when too much waits for it, but not for one large event that it takes at once', async () => {
  const { client: quick } = watched()
  const report = { report: 'x'.repeat(70 * 1_048_576) }
  quick.emit('cleanup:report', report)
  quick.take()
  await quiet()
  expect(quick.connected).toBe(true)

  const { client: unread } = watched()
  unread.emit('cleanup:report', report)
  await quiet()
  expect(unread.connected).toBe(false)

  const { client: flooded } = watched()
  for (let n = 0; n < 20_001; n++) flooded.emit('agent:updated', {})
  await quiet()
  expect(flooded.connected).toBe(false)
})
