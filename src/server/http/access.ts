import { timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { EbbError } from '../../core/model/errors.ts'

/** Access checks of every request. They refuse web pages of other origins, also those that use DNS rebinding. */

export interface AccessRules {
  /** The host that the server listens on. */
  readonly host: string
  readonly allowHosts: readonly string[]
  readonly allowOrigins: readonly string[]
  readonly token: string | undefined
}

const ownNames = ['localhost', '127.0.0.1', '[::1]']

export class Access {
  readonly #hosts: ReadonlySet<string>
  readonly #origins: ReadonlySet<string>
  readonly #token: Buffer | undefined

  constructor(rules: AccessRules) {
    this.#hosts = new Set([...ownNames, bracketed(rules.host), ...rules.allowHosts].map((name) => name.toLowerCase()))
    this.#origins = new Set(rules.allowOrigins)
    this.#token = rules.token === undefined ? undefined : Buffer.from(rules.token)
  }

  /**
   * Refuses foreign web pages. A page whose name was rebound to this machine sends its own name as `Host`. A page that calls
   * across origins sends its `Origin`.
   */
  requireKnownCaller({ headers }: Pick<IncomingMessage, 'headers'>): void {
    const host = headers.host?.toLowerCase()
    if (host === undefined || !(this.#hosts.has(host) || this.#hosts.has(withoutPort(host))))
      throw new EbbError(
        'forbidden',
        `The host name "${host?.slice(0, 200) ?? ''}" is not a name of this server; add it with --allow-host.`,
      )
    const { origin } = headers
    if (origin !== undefined && !this.#isOwn(origin, host) && !this.#isAllowed(origin))
      throw new EbbError('forbidden', `Pages of ${origin.slice(0, 200)} may not call this server; allow the origin with --allow-origin.`)
  }

  /** The CORS headers for an origin of `--allow-origin`; undefined for every other request. */
  sharing({ method, headers: { origin } }: Pick<IncomingMessage, 'method' | 'headers'>): Readonly<Record<string, string>> | undefined {
    if (origin === undefined || !this.#isAllowed(origin)) return undefined
    return {
      'Access-Control-Allow-Origin': origin,
      'Access-Control-Allow-Credentials': 'true',
      'Access-Control-Expose-Headers': 'X-Next-Cursor, X-Agent-Id, Mcp-Session-Id',
      Vary: 'Origin',
      ...(method === 'OPTIONS' && {
        'Access-Control-Allow-Methods': 'GET, POST, DELETE',
        'Access-Control-Allow-Headers':
          'Authorization, Content-Type, X-Ebb-Namespace, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name, Last-Event-ID',
        'Access-Control-Max-Age': '600',
      }),
    }
  }

  #isAllowed(origin: string): boolean {
    return this.#origins.has(origin.toLowerCase())
  }

  #isOwn(origin: string, host: string): boolean {
    const url = URL.parse(origin)
    return url !== null && (url.protocol === 'http:' || url.protocol === 'https:') && url.host.toLowerCase() === host
  }

  /** Compares a text with the server's token, in constant time. False when the server has no token. */
  isToken(candidate: string): boolean {
    const given = Buffer.from(candidate)
    return this.#token !== undefined && given.length === this.#token.length && timingSafeEqual(given, this.#token)
  }

  requireToken(candidate: string | undefined): void {
    if (this.#token !== undefined && !this.isToken(candidate ?? ''))
      throw new EbbError('unauthorized', 'The server requires its token; send it as "Authorization: Bearer TOKEN".')
  }
}

export function bearerOf(authorization: string | undefined): string | undefined {
  return /^Bearer (.+)$/i.exec(authorization ?? '')?.[1]
}

export function bracketed(host: string): string {
  return host.includes(':') && !host.startsWith('[') ? `[${host}]` : host
}

function withoutPort(host: string): string {
  return host.replace(/:\d+$/, '')
}

/** Whether only this machine can reach the address. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}
