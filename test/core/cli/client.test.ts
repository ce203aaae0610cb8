import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { Client } from '../../../src/cli/client/client.ts'

/** The global dispatcher of fetch. It limits the wait for an answer to five minutes by default. */
const dispatcher = Symbol.for('undici.globalDispatcher.1')
const scope = globalThis as unknown as Record<symbol, { constructor: new (options: object) => never } | undefined>
const usual = scope[dispatcher]

afterEach(() => {
  scope[dispatcher] = usual
})

it("cli client: an answer may take longer than fetch's default timeout", async () => {
  await fetch('data:,').then((answer) => answer.text()) // The first fetch creates the dispatcher.
  const Dispatcher = scope[dispatcher]?.constructor
  if (!Dispatcher) throw new Error('There is no global dispatcher to replace.')
  scope[dispatcher] = new Dispatcher({ headersTimeout: 50 })
  const impatient = Promise.withResolvers<void>()
  const server = createServer((request, answer) => {
    if (request.url === '/impatient') request.once('close', impatient.resolve)
    else void impatient.promise.then(() => answer.end('{"success":true}'))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const stopped = new Client(url, undefined).post('/agents/a/stop', { grace: 360_000 })
  // The fetch to `/impatient` starts after the stop call, and times out before the stop call is answered.
  await expect(fetch(`${url}/impatient`)).rejects.toThrow('fetch failed')
  expect(await stopped).toEqual({ success: true })
  server.close()
  server.closeAllConnections()
})
