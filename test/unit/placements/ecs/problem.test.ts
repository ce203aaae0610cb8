import { describe, expect, test } from 'vitest'
import { AwsProblem } from '../../../../src/placements/ecs/aws.ts'
import { withRetries } from '../../../../src/placements/ecs/patience.ts'
import { problemOf } from '../../../../src/placements/ecs/problem.ts'
import { VirtualClock } from '../../../support/virtual-clock.ts'

/** Maps errors of the SDK to their meaning. Few of them mean that something does not exist (G4). */

function sdkError(name: string, status?: number, message = name): Error {
  return Object.assign(new Error(message), { name, ...(status !== undefined && { $metadata: { httpStatusCode: status } }) })
}

test.each([
  ['ThrottlingException', 400, 'throttled'],
  ['SlowDown', 503, 'throttled'],
  ['ServerException', 500, 'unreachable'],
  ['InternalError', 500, 'unreachable'],
  ['ExpiredTokenException', 400, 'credentials'],
  ['ExpiredToken', 403, 'credentials'],
  ['CredentialsProviderError', undefined, 'credentials'],
  ['UnrecognizedClientException', 400, 'credentials'],
  ['AccessDenied', 403, 'denied'],
  ['TimeoutError', undefined, 'unreachable'],
  ['NoSuchKey', 404, 'absent'],
  ['NotFound', 404, 'absent'],
  ['PreconditionFailed', 412, 'taken'],
  ['ConditionalRequestConflict', 409, 'taken'],
  ['RequestTimeTooSkewed', 403, 'unreachable'],
  ['RequestTimeout', 400, 'unreachable'],
  ['NoSuchBucket', 404, 'refused'],
  ['ClusterNotFoundException', 400, 'refused'],
  ['TargetGroupNotFoundException', 400, 'refused'],
  ['UnknownError', 400, 'credentials'],
] as const)('aws errors: %s with %s is %s', (name, status, trouble) => {
  expect(problemOf('Something', sdkError(name, status)).trouble).toBe(trouble)
})

test('aws errors: a message has no canonical request, and says what to do', () => {
  const { message } = problemOf('StopTask', sdkError('InvalidSignatureException', 403, 'The request signature…\nSECRET'))
  expect(message).toMatch(/AWS does not accept the credentials .*; set AWS_PROFILE/)
  expect(message).not.toMatch(/SECRET/)
})

describe('aws calls: retries', () => {
  const never = new AbortController().signal

  test('a refusal after a lost answer is not certain', async () => {
    const clock = new VirtualClock()
    let attempts = 0
    const work = withRetries('RunTask', { signal: never, clock }, async () => {
      attempts += 1
      throw sdkError(attempts < 3 ? 'TimeoutError' : 'ClientException', attempts < 3 ? undefined : 400)
    })
    await expect(clock.run(work)).rejects.toMatchObject({ trouble: 'refused', isCertain: false })
    expect(attempts).toBe(3)
  })

  test('a call is made at most five times', async () => {
    const clock = new VirtualClock()
    let attempts = 0
    const work = withRetries('RunTask', { signal: never, clock }, async () => {
      attempts += 1
      throw sdkError('TimeoutError')
    })
    await expect(clock.run(work)).rejects.toBeInstanceOf(AwsProblem)
    expect(attempts).toBe(5)
  })

  test('a refusal at the first attempt is certain', async () => {
    const clock = new VirtualClock()
    const work = withRetries('RunTask', { signal: never, clock }, () => Promise.reject(sdkError('ClientException', 400)))
    await expect(clock.run(work)).rejects.toMatchObject({ isCertain: true })
  })

  test('a call that gets no answer times out', async () => {
    const clock = new VirtualClock()
    const work = withRetries('DescribeTasks', { signal: never, clock }, () => new Promise(() => {}))
    await expect(clock.run(work)).rejects.toMatchObject({ trouble: 'unreachable' })
  })

  test('a call ends when its caller aborts', async () => {
    const clock = new VirtualClock()
    const caller = new AbortController()
    const work = withRetries('DescribeTasks', { signal: caller.signal, clock }, () => new Promise(() => {}))
    caller.abort()
    await expect(work).rejects.toMatchObject({ trouble: 'aborted' })
  })
})
