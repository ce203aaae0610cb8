import { once } from 'node:events'
import { Agent, createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import { type Asked, type Failure, failureOf, operationOf, type Reply } from './operation.ts'

/**
 * A proxy in front of moto, which the unmodified SDK talks to. It lets other code answer where moto differs from AWS, records every call,
 * and injects faults: before the effect, after the effect with the reply lost, late, or with no effect at all.
 */

/**
 * `pretend`: a successful answer without the effect. `cut`: the effect, and half of the answer. `stranger`: a web page that is not from
 * AWS, without the effect.
 */
export type Fault = Failure | 'lose' | 'reset' | 'pretend' | 'cut' | 'stranger' | { readonly delayMs: number }

export interface Rule {
  /** An operation such as `StopTask`. Default: every operation. */
  readonly operation?: string
  readonly fault: Fault
  /** The number of calls that succeed before the fault applies. */
  readonly skips?: number
  /** The number of calls that fail. Default: until `heal()`. */
  readonly times?: number
}

export interface Call {
  readonly operation: string
  /** The object, task or target that the call concerns. */
  readonly about: string
  readonly startedMs: number
  endedMs: number
  readonly fault?: Fault
  /** The request itself, when `keepsAsked` is set, so that a test can repeat it. */
  readonly asked?: Asked
}

/** Answers in place of moto, or returns undefined to pass the request to moto. */
export type Stand = (asked: Asked, toMoto: (asked: Asked) => Promise<Reply>) => Promise<Reply> | undefined

interface LiveRule extends Rule {
  left: number
  toSkip: number
}

export class FaultingProxy implements AsyncDisposable {
  readonly calls: Call[] = []
  readonly #server: Server
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 32 })
  readonly #moto: number
  readonly #stand: Stand
  readonly #waiting = new Set<() => void>()
  #rules: LiveRule[] = []
  /** Latency in ms that is added to every call. */
  latencyMs = 0
  keepsAsked = false

  private constructor(moto: number, stand: Stand) {
    this.#moto = moto
    this.#stand = stand
    this.#server = createServer((incoming, outgoing) => void this.#serve(incoming, outgoing).catch(() => outgoing.destroy()))
    this.#server.keepAliveTimeout = 60_000
  }

  static async start(moto: number, stand: Stand): Promise<FaultingProxy> {
    const proxy = new FaultingProxy(moto, stand)
    proxy.#server.listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    return proxy
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as { port: number }).port}`
  }

  fail(...rules: readonly Rule[]): void {
    this.#rules.push(...rules.map((rule) => ({ ...rule, left: rule.times ?? Number.POSITIVE_INFINITY, toSkip: rule.skips ?? 0 })))
  }

  /** Removes all faults. */
  heal(): void {
    this.#rules = []
  }

  of(operation: string): readonly Call[] {
    return this.calls.filter((call) => call.operation === operation)
  }

  /** Resolves when this many calls of the operation have ended. */
  async saw(operation: string, times = 1, deadlineMs = 20_000): Promise<void> {
    await this.#until(operation, times, deadlineMs, ({ endedMs }) => endedMs > 0)
  }

  /** Resolves when this many calls of the operation have arrived. */
  async began(operation: string, times = 1, deadlineMs = 20_000): Promise<void> {
    await this.#until(operation, times, deadlineMs, () => true)
  }

  async #until(operation: string, times: number, deadlineMs: number, counts: (call: Call) => boolean): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`${operation} was not called ${times} times within ${deadlineMs} ms. Calls: ${this.#callNames()}`)),
        deadlineMs,
      )
      const check = (): void => {
        if (this.of(operation).filter(counts).length < times) return
        clearTimeout(timer)
        this.#waiting.delete(check)
        resolve()
      }
      this.#waiting.add(check)
      check()
    })
  }

  #ruleFor(name: string): LiveRule | undefined {
    for (const rule of this.#rules) {
      if (rule.left === 0 || (rule.operation !== undefined && rule.operation !== name)) continue
      if (rule.toSkip > 0) {
        rule.toSkip -= 1
        continue
      }
      rule.left -= 1
      return rule
    }
    return undefined
  }

  #callNames(): string {
    return this.calls.map(({ operation }) => operation).join(', ')
  }

  async #serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const parts: Buffer[] = []
    for await (const part of incoming as AsyncIterable<Buffer>) parts.push(part)
    const asked = operationOf(incoming, Buffer.concat(parts))
    const rule = this.#ruleFor(asked.name)
    const fault = rule?.fault
    const call: Call = {
      operation: asked.name,
      about: aboutOf(asked),
      startedMs: performance.now(),
      endedMs: 0,
      ...(fault && { fault }),
      ...(this.keepsAsked && { asked }),
    }
    this.calls.push(call)
    for (const check of this.#waiting) check()
    try {
      const delayMs = this.latencyMs + (typeof fault === 'object' ? fault.delayMs : 0)
      if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs))
      if (fault === 'reset') return void incoming.socket.destroy()
      const reply = await this.#replyTo(asked, fault)
      // The effect has happened, and its reply is lost.
      if (fault === 'lose') return void incoming.socket.destroy()
      outgoing.writeHead(reply.status, headersFor(reply))
      outgoing.end(asked.method === 'HEAD' ? undefined : reply.body)
    } finally {
      call.endedMs = performance.now()
      for (const check of this.#waiting) check()
    }
  }

  async #replyTo(asked: Asked, fault: Fault | undefined): Promise<Reply> {
    if (fault === 'pretend') return { status: 200, headers: { etag: '"0"' }, body: '' }
    if (fault === 'stranger') return { status: 200, headers: { 'content-type': 'text/xml' }, body: '<html><body>Log in</body></html>' }
    if (fault === 'cut') return half(await this.answer(asked))
    return typeof fault === 'string' && fault !== 'lose' && fault !== 'reset' ? failureOf(asked, fault) : await this.answer(asked)
  }

  /** Repeats a recorded call through the proxy, with the same faults and records. */
  async again({ method, url, headers, body }: Asked): Promise<void> {
    const call = request(new URL(url.pathname + url.search, this.url), { method, headers, agent: this.#agent })
    call.end(body)
    const [response] = (await once(call, 'response')) as [IncomingMessage]
    response.resume()
    await once(response, 'end')
  }

  /** Answers a request without faults and without recording it. */
  async answer(asked: Asked): Promise<Reply> {
    return await (this.#stand(asked, (forwarded) => this.toMoto(forwarded)) ?? this.toMoto(asked))
  }

  async toMoto({ method, url, headers, body }: Asked): Promise<Reply> {
    const { connection: _1, 'transfer-encoding': _2, ...rest } = headers
    const call = request({
      port: this.#moto,
      host: '127.0.0.1',
      method,
      path: url.pathname + url.search,
      headers: { ...rest, 'content-length': body.length },
      agent: this.#agent,
    })
    call.end(body)
    const [response] = (await once(call, 'response')) as [IncomingMessage]
    const parts: Buffer[] = []
    for await (const part of response as AsyncIterable<Buffer>) parts.push(part)
    return { status: response.statusCode ?? 500, headers: response.headers as Record<string, string>, body: Buffer.concat(parts) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    this.#agent.destroy()
    await once(this.#server, 'close')
  }
}

function half({ status, headers = {}, body }: Reply): Reply {
  const kept = Object.entries(headers).filter(([name]) => name.toLowerCase() !== 'content-length')
  return { status, headers: Object.fromEntries(kept), body: Buffer.from(body).subarray(0, Math.floor(body.length / 2)) }
}

function headersFor({ headers = {}, body }: Reply): Record<string, string | string[]> {
  const kept = Object.entries(headers).filter(([name]) => !/^(connection|transfer-encoding|keep-alive)$/i.test(name))
  const length = kept.some(([name]) => name.toLowerCase() === 'content-length') ? [] : [['content-length', String(Buffer.byteLength(body))]]
  return Object.fromEntries([...kept, ...length]) as Record<string, string | string[]>
}

function aboutOf({ service, url, body }: Asked): string {
  if (service === 's3') return decodeURIComponent(url.pathname)
  if (service === 'elb') return new URLSearchParams(body.toString('utf8')).get('Targets.member.1.Id') ?? ''
  if (service !== 'ecs') return ''
  const { task, tasks, startedBy, desiredStatus } = JSON.parse(body.toString('utf8') || '{}') as Record<string, unknown>
  return String(task ?? (Array.isArray(tasks) ? tasks.join(' ') : undefined) ?? startedBy ?? desiredStatus ?? '')
}
