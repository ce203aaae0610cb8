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

/** Credentials in a profile that is rewritten by a new login, and a service that checks the key of each call. */

let file: string
const isGood = new Set<string>()
const keys: string[] = []
const service = createServer((request, response) => {
  const key = /Credential=([^/]+)/.exec(request.headers.authorization ?? '')?.[1] ?? ''
  keys.push(key)
  response.writeHead(isGood.has(key) ? 200 : 400, { 'content-type': 'application/x-amz-json-1.1', etag: '"1"' })
  // The answer to a HEAD request has no body, and so no error code.
  response.end(isGood.has(key) ? '{"taskArns":["arn:1"]}' : '{"__type":"ExpiredTokenException","message":"expired"}')
})
const before = { ...process.env }

beforeEach(async () => {
  file = join(temporaryHome(), 'credentials')
  for (const name of Object.keys(process.env).filter((variable) => variable.startsWith('AWS_'))) delete process.env[name]
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

function openQueries(): {
  readonly queries: AwsQueries
  readonly call: { readonly signal: AbortSignal; readonly clock: typeof realClock }
} {
  const endpoint = `http://127.0.0.1:${(service.address() as AddressInfo).port}`
  const queries = awsQueries(new ClientPool({ region: 'us-east-1', endpoint }))
  return { queries, call: { signal: new AbortController().signal, clock: realClock } }
}

const query = { cluster: 'agents', desiredStatus: 'RUNNING' } as const
const object = { bucket: 'results', key: 'ebb/leases/10.0.0.1' }

test('ecs credentials: a process uses renewed credentials of its profile after the old ones expired', async () => {
  logIn('OLD')
  const { queries, call } = openQueries()
  await expect(queries.listTasks(query, call)).rejects.toThrow(/credentials have expired; renew them, then the call is retried/)
  // The profile is unchanged, so the call is made once and is not repeated with the same key.
  expect(keys).toEqual(['OLD'])
  logIn('NEW')
  isGood.add('NEW')
  expect(await queries.listTasks(query, call)).toEqual(['arn:1'])
  expect(keys).toEqual(['OLD', 'OLD', 'NEW'])
  // A call to S3 uses another client of the SDK, and gets an error answer without an error code.
  expect(await queries.head(object, call)).toBeDefined()
})

test('ecs credentials: a profile that is created while the server runs is found', async () => {
  const { queries, call } = openQueries()
  await expect(queries.listTasks(query, call)).rejects.toThrow(/set AWS_PROFILE or AWS_ACCESS_KEY_ID/)
  logIn('NEW')
  isGood.add('NEW')
  expect(await queries.listTasks(query, call)).toEqual(['arn:1'])
  rmSync(file)
  // Credentials that are still valid are not read from the file again.
  expect(await queries.listTasks(query, call)).toEqual(['arn:1'])
})
