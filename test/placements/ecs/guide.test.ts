import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loadConfig } from '../../../src/config/config.ts'
import { launchOne } from '../../support/aws/agents.ts'
import { AwsWorld } from '../../support/aws/world.ts'
import { root, temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'

/**
 * The snippets of the AWS guide that users copy: the configuration can be loaded as it is, and the policy allows every call that Ebb makes
 * and no other.
 */

const guide = readFileSync(join(root, 'docs/in-depth/aws.md'), 'utf8')
const readme = readFileSync(join(root, 'README.md'), 'utf8')
const blocksOf = (text: string): readonly string[] => [...text.matchAll(/```json\n(.*?)```/gs)].map(([, body = '']) => body)

test.each([
  ['the guide', blocksOf(guide).find((block) => block.includes('"ecs"'))],
  ['the README', blocksOf(readme).find((block) => block.includes('"ecs"'))],
])('ecs guide: the configuration in %s can be loaded', (_name, block = '') => {
  const home = temporaryHome()
  writeFileSync(join(home, 'ebb.config.json'), block)
  const { ecsCluster, ecsSubnets, ecsBucket, ecsRegion } = loadConfig({ flags: new Map([['home', home]]) })
  expect({ ecsCluster, ecsBucket, ecsRegion }).toEqual({ ecsCluster: 'agents', ecsBucket: 'my-agent-results', ecsRegion: 'eu-central-1' })
  expect(ecsSubnets.length).toBeGreaterThan(0)
})

/** The IAM permission of each operation whose permission has another name. */
const permissions: Readonly<Record<string, string>> = {
  PutObject: 's3:PutObject',
  CreateMultipartUpload: 's3:PutObject',
  UploadPart: 's3:PutObject',
  CompleteMultipartUpload: 's3:PutObject',
  HeadObject: 's3:GetObject',
  DeleteObject: 's3:DeleteObject',
  ListObjectsV2: 's3:ListBucket',
  HeadBucket: 's3:ListBucket',
  ListMultipartUploads: 's3:ListBucketMultipartUploads',
  AbortMultipartUpload: 's3:AbortMultipartUpload',
}

test('ecs guide: the policy lets an installation run and stop only tasks with its own id', () => {
  const { Statement } = JSON.parse(blocksOf(guide).find((block) => block.includes('"Statement"')) ?? '') as {
    Statement: { Action: string | string[]; Condition?: { StringEquals?: Record<string, string> } }[]
  }
  for (const [action, tag] of [
    ['ecs:RunTask', 'aws:RequestTag/ebb:installation'],
    ['ecs:TagResource', 'aws:RequestTag/ebb:installation'],
    ['ecs:StopTask', 'aws:ResourceTag/ebb:installation'],
  ] as const)
    expect(Statement.find(({ Action }) => Action === action)?.Condition?.StringEquals?.[tag], action).toBe('INSTALLATION')
})

describe('ecs guide: the policy', () => {
  needs('moto')
  let world: AwsWorld
  beforeAll(async () => {
    world = await AwsWorld.start()
  })
  afterAll(async () => await world[Symbol.asyncDispose]())

  test('allows every call of a launch, a close and a reaper pass, and no call that is never made', async () => {
    const { Statement } = JSON.parse(blocksOf(guide).find((block) => block.includes('"Statement"')) ?? '') as {
      Statement: { Action: string | string[]; Resource: string | string[] }[]
    }
    const allowed = new Set(Statement.flatMap(({ Action }) => Action))
    await using server = await world.server()
    const agent = await launchOne(world, server)
    await server.post('/api/reaper/run', {})
    expect(await server.post(`/api/agents/${agent.id}/stop`, {})).toMatchObject({ success: true })
    const called = [...new Set(world.proxy.calls.map(({ operation }) => operation))]
    const isAllowed = (operation: string): boolean =>
      [permissions[operation], `ecs:${operation}`, `elasticloadbalancing:${operation}`].some(
        (permission) => permission !== undefined && allowed.has(permission),
      )
    expect(called.filter((operation) => !isAllowed(operation))).toEqual([])
    const used = new Set(
      [...called, 'AbortMultipartUpload'].flatMap((operation) => [
        permissions[operation] ?? '',
        `ecs:${operation}`,
        `elasticloadbalancing:${operation}`,
      ]),
    )
    // The policy also contains two permissions without an operation, which ECS and IAM check during RunTask.
    expect([...allowed].filter((permission) => !used.has(permission))).toEqual(['ecs:TagResource', 'iam:PassRole'])
    // For each of the bucket's folders, results and leases, the policy grants only the object permissions that Ebb uses there.
    const inFolder = (action: string, place: string): readonly string[] =>
      ['results', 'leases'].filter((folder) => place.includes(`/ebb/${folder}/`)).map((folder) => `${action} ${folder}`)
    const granted = Statement.flatMap(({ Action, Resource }) =>
      [Action].flat().flatMap((action) => [Resource].flat().flatMap((place) => inFolder(action, place))),
    )
    const done = world.proxy.calls.flatMap(({ operation, about }) => inFolder(permissions[operation] ?? '', about))
    expect([...new Set(granted)].sort()).toEqual([...new Set([...done, 's3:AbortMultipartUpload results'])].sort())
  })
})
