/**
 * A foreign control plane, which knows only the five calls of docs/in-depth/runner.md. It imports nothing from `src/`, and has its
 * own SSE parser, written after the HTML standard (9.2.6).
 */

// biome-ignore lint/suspicious/noExplicitAny: JSON from the wire, without Ebb's types
type Json = any

export interface Reply {
  readonly status: number
  readonly body: Json
}

export interface Event {
  readonly name: string
  readonly data: string
}

const patienceMs = 30_000

export class RunnerClient {
  readonly #url: string
  readonly #headers: Readonly<Record<string, string>>

  constructor(url: string, token?: string) {
    this.#url = url
    this.#headers = { 'content-type': 'application/json', ...(token !== undefined && { authorization: `Bearer ${token}` }) }
  }

  health(): Promise<Reply> {
    return this.#call('GET', '/health')
  }

  start(body: unknown): Promise<Reply> {
    return this.#call('POST', '/agent/start', body)
  }

  stop(id: string): Promise<Reply> {
    return this.#call('POST', `/agent/stop/${id}`)
  }

  status(id: string): Promise<Reply> {
    return this.#call('GET', `/agent/status/${id}`)
  }

  async #call(method: string, path: string, body?: unknown): Promise<Reply> {
    const headers = body === undefined ? { authorization: this.#headers.authorization ?? '' } : this.#headers
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    const response = await fetch(this.#url + path, {
      method,
      headers,
      ...(body !== undefined && { body: text }),
      signal: AbortSignal.timeout(patienceMs),
    })
    return { status: response.status, body: await response.json() }
  }

  async stream(body: unknown): Promise<ClientStream> {
    const hangUp = new AbortController()
    const response = await fetch(`${this.#url}/agent/stream`, {
      method: 'POST',
      headers: this.#headers,
      body: JSON.stringify(body),
      signal: hangUp.signal,
    })
    if (response.status !== 200 || !response.body)
      throw new Error(`The stream was answered with ${response.status}: ${await response.text()}`)
    return new ClientStream(response, hangUp)
  }
}

export class ClientStream {
  readonly id: string
  readonly type: string
  readonly events: Event[] = []
  /** Resolves when the connection has ended, in any way. */
  readonly closed: Promise<void>
  isBroken = false
  readonly #hangUp: AbortController
  #onData = (): void => {}

  constructor(response: Response, hangUp: AbortController) {
    this.id = response.headers.get('x-agent-id') ?? ''
    this.type = response.headers.get('content-type') ?? ''
    this.#hangUp = hangUp
    this.closed = this.#read(response.body as ReadableStream<Uint8Array>)
  }

  hangUp(): void {
    this.#hangUp.abort()
  }

  /** The lines that the agent wrote. */
  get lines(): readonly string[] {
    return this.events.filter(({ name }) => name === '').map(({ data }) => data)
  }

  get last(): Event | undefined {
    return this.events.at(-1)
  }

  /** Resolves when the stream has delivered `count` lines. */
  async received(count: number): Promise<void> {
    await Promise.race([
      new Promise<void>((resolve) => {
        this.#onData = () => {
          if (this.lines.length >= count) resolve()
        }
        this.#onData()
      }),
      this.closed.then(() => {
        if (this.lines.length < count) throw new Error(`The stream ended: ${JSON.stringify(this.events.slice(-5))}`)
      }),
    ])
  }

  async #read(body: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder()
    let text = ''
    let data: string[] = []
    let name = ''
    try {
      for await (const chunk of body) {
        text += decoder.decode(chunk, { stream: true })
        for (let end = /\r\n|\n|\r(?!$)/.exec(text); end; end = /\r\n|\n|\r(?!$)/.exec(text)) {
          const line = text.slice(0, end.index)
          text = text.slice(end.index + end[0].length)
          const [, field = '', value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? []
          if (line === '' && data.length > 0) this.events.push({ name, data: data.join('\n') })
          if (line === '') [data, name] = [[], '']
          else if (field === 'data') data.push(value)
          else if (field === 'event') name = value
        }
        this.#onData()
      }
    } catch {
      this.isBroken = true
    }
  }
}

/** An agent that runs a shell. */
export function shell(script: string, more: object = {}): object {
  return { type: 'command', prompt: '', configuration: { command: ['sh', '-c', script] }, ...more }
}
