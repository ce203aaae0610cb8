/**
 * A control plane that is not ours: it knows the five calls of docs/in-depth/runner.md and nothing else. No import from `src/`, and
 * an SSE parser of its own, after the HTML standard (9.2.6).
 */

// biome-ignore lint/suspicious/noExplicitAny: what came over the wire, looked at without our types
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
  /** Settles when the connection is over, however. */
  readonly over: Promise<void>
  isBroken = false
  readonly #hangUp: AbortController
  #told = (): void => {}

  constructor(response: Response, hangUp: AbortController) {
    this.id = response.headers.get('x-agent-id') ?? ''
    this.type = response.headers.get('content-type') ?? ''
    this.#hangUp = hangUp
    this.over = this.#read(response.body as ReadableStream<Uint8Array>)
  }

  hangUp(): void {
    this.#hangUp.abort()
  }

  /** What the agent wrote. */
  get lines(): readonly string[] {
    return this.events.filter(({ name }) => name === '').map(({ data }) => data)
  }

  get last(): Event | undefined {
    return this.events.at(-1)
  }

  /** Settles when so many lines have come. */
  async heard(count: number): Promise<void> {
    await Promise.race([
      new Promise<void>((resolve) => {
        this.#told = () => {
          if (this.lines.length >= count) resolve()
        }
        this.#told()
      }),
      this.over.then(() => {
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
        this.#told()
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
