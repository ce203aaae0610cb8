import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { realClock } from '../../../src/host/clock.ts'
import type { AwsQueries } from '../../../src/placements/ecs/aws.ts'
import { ClientPool } from '../../../src/placements/ecs/clients.ts'
import { awsQueries } from '../../../src/placements/ecs/queries.ts'
import { temporaryHome } from '../../support/home.ts'

/** Credentials of a profile, as whoever logs in anew writes them, and a service that looks at whose a call is. */

let file: string
const isGood = new Set<string>()
const keys: string[] = []
const service = createServer((request, response) => {
  const key = /Credential=([^/]+)/.exec(request.headers.authorization ?? '')?.[1] ?? ''
  keys.push(key)
  response.writeHead(isGood.has(key) ? 200 : 400, { 'content-type': 'application/x-amz-json-1.1', etag: '"1"' })
  // The answer to a HEAD has no body, and so no reason.
  response.end(isGood.has(key) ? '{"taskArns":["arn:1"]}' : '{"__type":"ExpiredTokenException","message":"expired"}')
})
const before = { ...process.env }

beforeEach(async () => {
  file = join(temporaryHome(), 'credentials')
  for (const name of Object.keys(process.env).filter((one) => one.startsWith('AWS_'))) delete process.env[name]
  Object.assign(process.env, { AWS_SHARED_CREDENTIALS_FILE: file, AWS_CONFIG_FILE: '/dev/null', AWS_EC2_METADATA_DISABLED: 'true' })
  isGood.clear()
  keys.length = 0
  service.listen(0, '127.0.0.1')
  await once(service, 'listening')
})
afterEach(async () => {
  process.env = { ...before }
  service.closeAllConnections()
  await new Promise((resolve) => service.close(resolve))
})

function logIn(key: string): void {
  writeFileSync(file, `[default]\naws_access_key_id = ${key}\naws_secret_access_key = secret\naws_session_token = token-of-${key}\n`)
}

function look(): { readonly queries: AwsQueries; readonly call: { readonly signal: AbortSignal; readonly clock: typeof realClock } } {
  const endpoint = `http://127.0.0.1:${(service.address() as AddressInfo).port}`
  const queries = awsQueries(new ClientPool({ region: 'us-east-1', endpoint }))
  return { queries, call: { signal: new AbortController().signal, clock: realClock } }
}

const query = { cluster: 'agents', desiredStatus: 'RUNNING' } as const
const object = { bucket: 'results', key: 'ebb/leases/10.0.0.1' }

test('credentials that expired and were renewed in their profile are used by the same process', async () => {
  logIn('OLD')
  const { queries, call } = look()
  await expect(queries.listTasks(query, call)).rejects.toThrow(/credentials have expired; renew them, then the call is retried/)
  // Nobody has renewed them yet: asked once, not again with the same.
  expect(keys).toEqual(['OLD'])
  logIn('NEW')
  isGood.add('NEW')
  expect(await queries.listTasks(query, call)).toEqual(['arn:1'])
  expect(keys).toEqual(['OLD', 'OLD', 'NEW'])
  // Also where the answer says no reason, by another client.
  expect(await queries.head(object, call)).toBeDefined()
})

test('a profile that is made only when the server runs is found', async () => {
  const { queries, call } = look()
  await expect(queries.listTasks(query, call)).rejects.toThrow(/set AWS_PROFILE or AWS_ACCESS_KEY_ID/)
  logIn('NEW')
  isGood.add('NEW')
  expect(await queries.listTasks(query, call)).toEqual(['arn:1'])
  rmSync(file)
  // What is good stays good: nothing is read again for it.
  expect(await queries.listTasks(query, call)).toEqual(['arn:1'])
})
