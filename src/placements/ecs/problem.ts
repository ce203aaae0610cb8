import { errno, isEbbError, sentence } from '../../core/model/errors.ts'
import { AwsProblem } from './aws.ts'

/** Classifies every error of the SDK. An unknown error never means "absent" (G4). */

const expired = new Set(['ExpiredToken', 'ExpiredTokenException', 'RequestExpired', 'TokenRefreshRequired'])

const badCredentials = new Set([
  'AuthFailure',
  'CredentialsProviderError',
  'IncompleteSignature',
  'InvalidAccessKeyId',
  'InvalidClientTokenId',
  'InvalidSignatureException',
  'InvalidToken',
  'MissingAuthenticationToken',
  'MissingAuthenticationTokenException',
  'SignatureDoesNotMatch',
  'TokenProviderError',
  'UnrecognizedClientException',
])

const denied = new Set(['AccessDenied', 'AccessDeniedException', 'Forbidden', 'UnauthorizedOperation'])

const throttled = new Set([
  'PriorRequestNotComplete',
  'RequestLimitExceeded',
  'RequestThrottled',
  'RequestThrottledException',
  'SlowDown',
  'Throttling',
  'ThrottlingException',
  'ThrottledException',
  'TooManyRequestsException',
])

/**
 * The codes that prove that something does not exist. They are about objects and parts of uploads only: a missing cluster, target group or
 * bucket proves nothing about the resources in it.
 */
const absent = new Set(['NoSuchKey', 'NoSuchUpload', 'NotFound'])

/** The codes of a write whose condition was not met. ConditionalRequestConflict: another write of the same object is in progress. */
const taken = new Set(['PreconditionFailed', 'ConditionalRequestConflict'])

const unreachable = new Set(['ECONNREFUSED', 'ECONNRESET', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOTFOUND', 'EAI_AGAIN', 'EPIPE', 'ETIMEDOUT'])

/** The codes with which S3 answers 400 because a request body did not arrive in time. The cause is the connection, not the request. */
const bodyTimeouts = new Set(['RequestTimeout', 'RequestTimeoutException'])

/** The codes for a request whose time is wrong. The answer contains the time of the server, with which the SDK signs the next call. */
const clockSkew = new Set(['RequestTimeTooSkewed', 'RequestInTheFuture'])

interface SdkError extends Error {
  readonly Code?: string
  readonly $metadata?: { readonly httpStatusCode?: number }
}

export function problemOf(operation: string, error: unknown): AwsProblem {
  if (error instanceof AwsProblem) return error
  if (isEbbError(error)) throw error
  const { name = '', Code = name, $metadata } = error as SdkError
  const status = $metadata?.httpStatusCode ?? 0
  const code = [name, Code].find((one) => known(one)) ?? name
  const trouble = (kind: AwsProblem['trouble'], says: string): AwsProblem => new AwsProblem(kind, says, { code, cause: error })

  if (expired.has(code))
    return trouble('credentials', `The AWS credentials have expired; renew them, then the call is retried (${operation}).`)
  if (badCredentials.has(code))
    return trouble(
      'credentials',
      `AWS does not accept the credentials (${code}); set AWS_PROFILE or AWS_ACCESS_KEY_ID and its secret (${operation}).`,
    )
  if (throttled.has(code) || status === 429) return trouble('throttled', `AWS throttles ${operation}; the call is retried.`)
  if (bodyTimeouts.has(code)) return trouble('unreachable', `AWS did not receive all of ${operation} in time; the call is retried.`)
  if (clockSkew.has(code))
    return trouble('unreachable', `AWS refused ${operation}, because the clock of this host is wrong; set the clock. The call is retried.`)
  if (taken.has(code) || status === 412) return trouble('taken', `${operation}: another object is there.`)
  // The answer to a HEAD has no body, so a 403, or the 400 for an expired token, comes without an error code.
  if (status === 400 && !known(code) && isNameless(code))
    return trouble('credentials', `AWS answered ${operation} with 400 and no reason, as for credentials that have expired; renew them.`)
  if (denied.has(code) || status === 403)
    return trouble('denied', `AWS denies ${operation}; allow it in the IAM policy, as the guide on AWS shows, or renew the credentials.`)
  if (absent.has(code)) return trouble('absent', `${operation}: the object does not exist.`)
  // The answer was cut off, or is not from AWS. The call may have been carried out all the same.
  if (status >= 200 && status < 300)
    return trouble('unreachable', `The answer to ${operation} could not be read: ${shortened(sentence(error))}; the call is retried.`)
  if (status >= 500) return trouble('unreachable', `AWS answered ${operation} with ${status} (${code}); the call is retried.`)
  // The SDK throws this message before it makes a call, when it knows no region.
  if (status === 0 && (error as SdkError).message === 'Region is missing')
    return trouble('credentials', `No AWS region is known for ${operation}; set ecs.region, or AWS_REGION.`)
  if (status === 0)
    return trouble('unreachable', `AWS could not be reached for ${operation}: ${networkReason(error)}; the call is retried.`)
  return trouble('refused', `AWS refused ${operation}: ${shortened(sentence(error))} (${code})`)
}

/** True for the names that the SDK gives to an error whose answer has no error code. */
function isNameless(code: string): boolean {
  return code === '' || code === '400' || code === 'UnknownError' || code === 'BadRequest' || code === 'Unknown'
}

function known(code: string): boolean {
  return [expired, badCredentials, denied, throttled, absent, taken, bodyTimeouts, clockSkew].some((set) => set.has(code))
}

function networkReason(error: unknown): string {
  const code = errno(error)
  return code !== undefined && unreachable.has(code) ? code : shortened(sentence(error))
}

/** The first line of a message, shortened. Some messages of AWS quote a whole canonical request over several lines. */
function shortened(text: string): string {
  const line = text.split('\n')[0] ?? ''
  return line.length > 300 ? `${line.slice(0, 300)}…` : line
}

/**
 * Returns a field that every answer to the operation has. Throws when the field is missing: the answer is then not from AWS, and the state
 * is unknown (G4).
 */
export function required<T>(operation: string, value: T | undefined): T {
  if (value !== undefined) return value
  throw new AwsProblem(
    'unreachable',
    `The answer to ${operation} is not from AWS; check the proxies between AWS and this host. The call is retried.`,
  )
}
