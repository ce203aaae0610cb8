import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { realClock } from '../../../src/host/clock.ts'
import { Daemon, statusOf } from '../../../src/placements/docker/daemon.ts'
import { dockerOver } from '../../../src/placements/docker/docker.ts'
import { queriesOf } from '../../../src/placements/docker/queries.ts'
import { temporaryHome } from '../../support/home.ts'

/** Answers of the daemon that were truncated or replaced on their way, with status 200. */

let answer = ''
let daemon: Daemon
const between = createServer((request, response) => {
  request.resume()
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': answer.length })
  response.end(answer)
})

beforeEach(async () => {
  const path = join(temporaryHome(), 'sock')
  between.listen(path)
  await once(between, 'listening')
  daemon = new Daemon({ host: `unix://${path}` }, realClock)
})
afterEach(async () => {
  between.closeAllConnections()
  await new Promise((resolve) => between.close(resolve))
})

describe.each([
  ['empty', ''],
  ['half of the real one', '[{"Id":"f0'],
  ['a web page', '<html>Log in</html>'],
  ['another JSON value', '{}'],
])('docker: a successful answer that is %s', (_name, text) => {
  test('is not treated as an empty list of containers (G4)', async () => {
    answer = text
    await expect(queriesOf(daemon).list({ 'ebb.installation': 'x' })).rejects.toThrow(/the Docker daemon's answer is not a list/)
  })

  test('is neither a created container nor a refusal to create one', async () => {
    answer = text
    const order = { name: 'x', image: 'y', labels: {}, argv: ['true'], env: {}, mounts: [] }
    const made = dockerOver(daemon).create(order)
    await expect(made).rejects.toThrow(/the Docker daemon's answer is not the id of a container/)
    expect(statusOf(await made.catch((error: unknown) => error))).toBeUndefined()
  })
})

test('docker: an empty list is a valid answer', async () => {
  answer = '[]'
  expect(await queriesOf(daemon).list({ 'ebb.installation': 'x' })).toEqual([])
})
