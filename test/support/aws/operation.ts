import type { IncomingMessage } from 'node:http'

/** Maps a request to a service and an operation, and builds the error answers of each service. */

export type Service = 'ecs' | 'elb' | 's3' | 'other'

export interface Asked {
  readonly service: Service
  readonly name: string
  readonly method: string
  readonly url: URL
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
}

export interface Reply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string | readonly string[]>>
  readonly body: string | Buffer
}

export function operationOf(request: IncomingMessage, body: Buffer): Asked {
  const url = new URL(request.url ?? '/', 'http://aws')
  const method = request.method ?? 'GET'
  const rest = { method, url, headers: request.headers, body }
  const target = request.headers['x-amz-target']
  if (typeof target === 'string') return { ...rest, service: 'ecs', name: target.slice(target.indexOf('.') + 1) }
  if (String(request.headers['content-type']).startsWith('application/x-www-form-urlencoded'))
    return { ...rest, service: 'elb', name: new URLSearchParams(body.toString('utf8')).get('Action') ?? '' }
  if (url.pathname.startsWith('/moto-api')) return { ...rest, service: 'other', name: 'moto' }
  return { ...rest, service: 's3', name: objectOperation(method, url) }
}

function objectOperation(method: string, { pathname, searchParams: query }: URL): string {
  const hasKey = pathname.split('/').filter(Boolean).length > 1
  if (method === 'POST') return query.has('uploadId') ? 'CompleteMultipartUpload' : 'CreateMultipartUpload'
  if (method === 'PUT') return query.has('partNumber') ? 'UploadPart' : hasKey ? 'PutObject' : 'CreateBucket'
  if (method === 'DELETE') return query.has('uploadId') ? 'AbortMultipartUpload' : 'DeleteObject'
  if (method === 'HEAD') return hasKey ? 'HeadObject' : 'HeadBucket'
  return query.has('uploads') ? 'ListMultipartUploads' : hasKey ? 'GetObject' : 'ListObjectsV2'
}

const codes = {
  throttle: { ecs: ['ThrottlingException', 400], elb: ['Throttling', 400], s3: ['SlowDown', 503] },
  error: { ecs: ['ServerException', 500], elb: ['InternalFailure', 500], s3: ['InternalError', 500] },
  expired: { ecs: ['ExpiredTokenException', 400], elb: ['ExpiredToken', 403], s3: ['ExpiredToken', 400] },
  /** The answer of a store that implements S3 only in part. */
  unsupported: { ecs: ['InvalidParameterException', 400], elb: ['InvalidConfigurationRequest', 400], s3: ['NotImplemented', 501] },
  denied: { ecs: ['AccessDeniedException', 400], elb: ['AccessDenied', 403], s3: ['AccessDenied', 403] },
} as const

export type Failure = keyof typeof codes

export function failureOf({ service, name, method }: Asked, failure: Failure): Reply {
  const [code, status] = codes[failure][service === 'other' ? 's3' : service]
  return errorReply(service, status, code, `${name} was made to fail by the test`, method)
}

export function errorReply(service: Service, status: number, code: string, message: string, method = 'POST'): Reply {
  if (service === 'ecs') {
    const headers = { 'content-type': 'application/x-amz-json-1.1' }
    return { status, headers, body: JSON.stringify({ __type: code, message }) }
  }
  const headers = { 'content-type': 'text/xml' }
  if (service === 'elb') {
    const error = `<Error><Type>Sender</Type><Code>${code}</Code><Message>${message}</Message></Error>`
    return { status, headers, body: `<ErrorResponse>${error}<RequestId>1</RequestId></ErrorResponse>` }
  }
  // The answer to a HEAD request has no body, and so no error code.
  return { status, headers, body: method === 'HEAD' ? '' : `<Error><Code>${code}</Code><Message>${message}</Message></Error>` }
}

export function json(value: unknown): Reply {
  return { status: 200, headers: { 'content-type': 'application/x-amz-json-1.1' }, body: JSON.stringify(value) }
}
