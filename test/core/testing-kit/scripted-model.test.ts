import { once } from 'node:events'
import { request as httpRequest, ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type Script, type ScriptedModel, startScriptedModel } from '../../../src/scripted-model/index.ts'
import { type Heard, type Json, tongues } from '../../support/tongues.ts'
import { waitUntil } from '../../support/world.ts'

const script: Script = {
  rules: [
    { when: { prompt: 'slowly' }, turns: [{ text: 'One piece äfter another 🌊.', pace: { everyMs: 1, chars: 5 } }] },
    { when: { prompt: 'run it' }, turns: [[{ text: 'I run it.' }, { shell: 'echo hi' }], { text: 'It ran.' }] },
    { when: { pattern: '^too (much|many)$' }, turns: [[{ error: 429, times: 2, retryAfterMs: 1_500 }, { text: 'Now.' }]] },
    { when: { prompt: 'not yet' }, turns: [{ error: 529, times: 1 }] },
    { when: { prompt: 'break' }, turns: [[{ text: 'Half a' }, { cut: true, times: 1 }, { text: ' sentence.' }]] },
    { when: { prompt: 'fail late' }, turns: [[{ text: 'Half' }, { error: 500 }]] },
    { when: { prompt: 'silence' }, turns: [{ stall: 'forever' }] },
    { when: { prompt: 'on and on' }, turns: [{ endless: 'and on ', pace: { everyMs: 0, chars: 4 } }] },
    { when: { prompt: 'their tool' }, turns: [{ tool: 'look_up', input: { word: 'ebb' } }] },
  ],
  otherwise: 'I was told nothing of this.',
}

let model: ScriptedModel
beforeEach(async () => {
  model = await startScriptedModel({ script })
})
afterEach(async () => await model.close())

const post = (path: string, body: unknown, init: RequestInit = {}): Promise<Response> =>
  fetch(`${model.url}${path}`, { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body), ...init })

/** True when twenty checks in a row, about 200 ms, return the same count. */
function standsStill(count: () => number): () => boolean {
  let [before, same] = [0, 0]
  return () => {
    const now = count()
    same = now === before ? same + 1 : 0
    before = now
    return now > 1 && same >= 20
  }
}

const eventsIn = (stream: string): readonly Json[] =>
  stream
    .split('\n\n')
    .flatMap((block) => /^data: (.*)$/m.exec(block)?.[1] ?? [])
    .filter((data) => data !== '[DONE]')
    .map((data) => JSON.parse(data))

for (const [api, tongue] of Object.entries(tongues)) {
  describe(`scripted model: ${api}`, () => {
    const say = (prompt: string, isStreaming = true, init?: RequestInit): Promise<Response> =>
      post(tongue.path(isStreaming), tongue.ask(prompt, isStreaming), init)
    const hear = async (response: Response): Promise<Heard> => {
      expect(response.status).toBe(200)
      expect(response.headers.get('content-type')).toBe('text/event-stream')
      const stream = await response.text()
      expect(stream, 'half a letter').not.toMatch(/\\ud[89a-f]/i)
      return tongue.hear(eventsIn(stream))
    }

    it('streams the text of the script at a pace', async () => {
      expect(await hear(await say('now slowly'))).toEqual({ text: 'One piece äfter another 🌊.', calls: [] })
    })

    it('answers in one piece without streaming', async () => {
      const response = await say('slowly', false)
      expect(response.headers.get('content-type')).toBe('application/json')
      expect(tongue.read(await response.json())).toEqual({ text: 'One piece äfter another 🌊.', calls: [] })
    })

    it("calls the agent's shell tool, and continues with the result", async () => {
      expect(await hear(await say('run it'))).toEqual({ text: 'I run it.', calls: [tongue.shell] })
      expect(tongue.read(await (await say('run it', false)).json())).toEqual({ text: 'I run it.', calls: [tongue.shell] })
      expect(await hear(await post(tongue.path(true), tongue.answered('run it', 'hi')))).toEqual({ text: 'It ran.', calls: [] })
      expect(model.requests.at(-1)).toMatchObject({ api, prompt: 'run it', turn: 1, rule: 1, toolResults: ['hi'], isAside: false })
    })

    it('ignores the context that the agent adds to the prompt', async () => {
      expect((await hear(await say('something else'))).text).toBe('I was told nothing of this.')
      expect(model.requests[0]).toMatchObject({ prompt: 'something else', rule: -1 })
    })

    it('returns an error as often as the script says', async () => {
      for (let time = 0; time < 2; time++) {
        const refused = await say('too many')
        expect(refused.status).toBe(429)
        expect(refused.headers.get('retry-after')).toBe('2')
        expect(JSON.stringify(await refused.json())).toMatch(/rate_limit|RESOURCE_EXHAUSTED/)
      }
      expect((await hear(await say('too many'))).text).toBe('Now.')
    })

    it('reports an error in the middle of a stream', async () => {
      const stream = await (await say('fail late')).text()
      expect(stream).toContain('Half')
      expect(stream).toMatch(/error/)
      expect(() => tongue.hear(eventsIn(stream))).toThrow()
    })

    it('breaks the connection once, after the previous text was sent', async () => {
      const response = await say('break')
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
      let heard = ''
      await expect(
        (async () => {
          for (let piece = await reader?.read(); piece && !piece.done; piece = await reader?.read()) heard += piece.value
        })(),
      ).rejects.toThrow()
      expect(heard).toContain('Half a')
      expect(heard, 'a line that is not in the script').not.toMatch(/^:/m)
      await model.waitFor(({ state }) => state === 'cut')
      expect((await hear(await say('break'))).text).toBe('Half a sentence.')
    })

    it('stalls until the client disconnects, and records that', async () => {
      const leaving = new AbortController()
      const asked = say('silence', true, { signal: leaving.signal }).then(async (response) => await response.text())
      const open = await model.waitFor(({ prompt }) => prompt === 'silence')
      expect(open.state).toBe('open')
      leaving.abort()
      await expect(asked).rejects.toThrow()
      await model.waitFor(({ state }) => state === 'gone')
    })

    it('sends an endless text until the client disconnects', async () => {
      const leaving = new AbortController()
      const response = await say('on and on', true, { signal: leaving.signal })
      const reader = response.body?.getReader()
      for (let bytes = 0; bytes < 20_000; ) bytes += (await reader?.read())?.value?.length ?? 0
      leaving.abort()
      await model.waitFor(({ state }) => state === 'gone')
    })

    it('refuses a body that is not JSON or is compressed', async () => {
      const broken = await post(tongue.path(true), '{')
      expect([broken.status, await broken.text()]).toEqual([400, expect.stringContaining('not JSON')])
      const packed = await post(tongue.path(true), '{}', { headers: { 'content-encoding': 'gzip' } })
      expect([packed.status, await packed.text()]).toEqual([415, expect.stringContaining('compression')])
    })
  })
}

describe('scripted model: every API', () => {
  it('returns an error when the script runs a command and the agent has no shell tool', async () => {
    const response = await post('/v1/messages', { ...tongues['anthropic-messages']?.ask('run it', false), tools: [{ name: 'Read' }] })
    // The request does not stream, so no output was sent yet, and the error is an HTTP status. In a stream it would be an error event.
    expect([response.status, await response.text()]).toEqual([400, expect.stringContaining('it offers: Read')])
  })

  it('finds a tool of an MCP server by the end of its name, also in a namespace', async () => {
    const chat = await post('/v1/chat/completions', {
      model: 'm',
      messages: [{ role: 'user', content: 'their tool' }],
      tools: [{ function: { name: 'mcp__words__look_up' } }],
    })
    expect(tongues['openai-chat']?.read(await chat.json()).calls).toEqual([{ name: 'mcp__words__look_up', input: { word: 'ebb' } }])
    const tools = [{ type: 'namespace', name: 'mcp__words', tools: [{ type: 'function', name: 'look_up' }] }]
    const responses = (await (await post('/v1/responses', { model: 'm', input: 'their tool', tools })).json()) as Json
    expect(responses.output[0]).toMatchObject({ type: 'function_call', name: 'look_up', namespace: 'mcp__words' })
    const unknown = await post('/v1/chat/completions', { model: 'm', messages: [{ role: 'user', content: 'their tool' }] })
    expect(tongues['openai-chat']?.read(await unknown.json()).calls).toEqual([{ name: 'look_up', input: { word: 'ebb' } }])
  })

  it('answers with `otherwise` when a turn has only errors and they are used up', async () => {
    const ask = (): Promise<Response> => post('/v1/messages', tongues['anthropic-messages']?.ask('not yet', false))
    expect((await ask()).status).toBe(529)
    expect(tongues['anthropic-messages']?.read(await (await ask()).json()).text).toBe('I was told nothing of this.')
  })

  it('streams one JSON array to a Gemini client that does not ask for events', async () => {
    const ask = (prompt: string): Promise<Response> =>
      post('/v1beta/models/gemini-x:streamGenerateContent', tongues.gemini?.ask(prompt, true))
    const said = await ask('slowly')
    expect(said.headers.get('content-type')).toBe('application/json')
    expect(tongues.gemini?.hear((await said.json()) as Json[]).text).toBe('One piece äfter another 🌊.')
    expect(await (await ask('fail late')).json()).toMatchObject([{ candidates: [{}] }, { error: { code: 500 } }])
    const refused = await ask('too many')
    expect([refused.status, await refused.json()]).toEqual([429, { error: expect.objectContaining({ code: 429 }) }])
  })

  it('sends the usage of a chat in its own last chunk, when the client asks for it', async () => {
    const ask = tongues['openai-chat']?.ask('run it', true)
    const asked = await post('/v1/chat/completions', { ...ask, stream_options: { include_usage: true } })
    const chunks = eventsIn(await asked.text())
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 2, total_tokens: expect.any(Number) } })
    expect(chunks.slice(0, -1).every(({ choices, usage }) => choices.length === 1 && usage === null)).toBe(true)
    const unasked = eventsIn(await (await post('/v1/chat/completions', ask)).text())
    expect(unasked.filter((chunk) => 'usage' in chunk)).toEqual([])
  })

  it('starts with turn 0 at a second prompt in the same conversation', async () => {
    const { messages } = tongues['openai-chat']?.answered('run it', 'hi') ?? {}
    await post('/v1/chat/completions', {
      model: 'm',
      messages: [...messages, { role: 'assistant', content: 'It ran.' }, { role: 'user', content: 'slowly' }],
    })
    expect(model.requests[0]).toMatchObject({ prompt: 'slowly', turn: 0, rule: 0, toolResults: [] })
  })

  it('counts errors per session when two sessions send the same prompt', async () => {
    const ask = (session: string): Promise<Response> =>
      post('/v1/chat/completions', tongues['openai-chat']?.ask('too much', true), { headers: { 'x-session-id': session } })
    for (const session of ['a', 'b', 'a', 'b']) expect((await ask(session)).status).toBe(429)
    for (const session of ['a', 'b']) expect((await ask(session)).status).toBe(200)
  })

  it('counts tokens, lists models, and answers other paths with 404', async () => {
    expect(await (await post('/v1/messages/count_tokens', tongues['anthropic-messages']?.ask('x', true))).json()).toEqual({
      input_tokens: expect.any(Number),
    })
    expect(await (await post('/v1beta/models/x:countTokens', { contents: [] })).json()).toEqual({ totalTokens: expect.any(Number) })
    expect(await (await fetch(`${model.url}/v1/models`)).json()).toMatchObject({ data: [{ id: 'scripted' }] })
    expect((await post('/v1/images', {})).status).toBe(404)
    expect((await fetch(`${model.url}/etc/passwd`)).status).toBe(404)
    expect((await fetch(model.url, { method: 'HEAD' })).status).toBe(200)
  })

  it('refuses a deeply nested body, and can still list its requests', async () => {
    const nested = `{"messages":[{"role":"user","content":"x","more":${'['.repeat(50_000)}${']'.repeat(50_000)}}]}`
    for (const path of ['/v1/messages', '/v1/messages/count_tokens']) {
      const refused = await post(path, nested)
      expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining('nested')])
    }
    expect(await (await fetch(`${model.url}/requests`)).json()).toEqual({ requests: [] })
  })

  it('accepts a base URL that ends with a slash', async () => {
    expect((await post('//v1/messages', tongues['anthropic-messages']?.ask('x', false))).status).toBe(200)
    expect((await fetch(`${model.url}//requests`)).status).toBe(200)
    expect((await fetch(`${model.url}//`)).status).toBe(404)
  })

  it('refuses requests of web pages, and requests with a foreign host name', async () => {
    expect((await post('/v1/messages', {}, { headers: { origin: 'http://evil.example' } })).status).toBe(403)
    const { port } = new URL(model.url)
    const asked = httpRequest({ host: '127.0.0.1', port, path: '/requests', headers: { host: `evil.example:${port}` } }).end()
    const [answer] = await once(asked, 'response')
    expect(answer.resume().statusCode).toBe(403)
  })

  it('survives a client that disconnects while it sends its request', async () => {
    const { port } = new URL(model.url)
    const socket = connect(Number(port), '127.0.0.1')
    await once(socket, 'connect')
    socket.write('POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"mod')
    socket.resetAndDestroy()
    expect((await post('/v1/messages', tongues['anthropic-messages']?.ask('x', true))).status).toBe(200)
  })

  it('does not buffer an endless answer for a client that does not read', async () => {
    model.follow({ rules: [{ turns: [{ endless: 'on and on '.repeat(10_000), pace: { everyMs: 0, chars: 100_000 } }] }] })
    const written = vi.spyOn(ServerResponse.prototype, 'write')
    try {
      const socket = await silentClient(true)
      // The kernel buffers a few megabytes. After that, the model must not write more.
      await waitUntil(
        standsStill(() => written.mock.calls.length),
        20_000,
        'the model waits for the reader',
      )
      socket.resetAndDestroy()
      await model.waitFor(({ state }) => state === 'gone')
    } finally {
      written.mockRestore()
    }
  })

  it('records a client that disconnects before it has read everything', async () => {
    model.follow({ otherwise: 'on and on '.repeat(2_000_000) })
    const socket = await silentClient(false)
    socket.resetAndDestroy()
    await model.waitFor(({ state }) => state === 'gone')
  })

  it('closes while a request is open', async () => {
    const asked = post('/v1/messages', tongues['anthropic-messages']?.ask('silence', true)).then(async (response) => await response.text())
    const failed = expect(asked).rejects.toThrow()
    await model.waitFor(({ state }) => state === 'open')
    await model.close()
    await failed
  })

  async function silentClient(stream: boolean): Promise<Socket> {
    const body = JSON.stringify({ model: 'm', stream, messages: [{ role: 'user', content: 'x' }] })
    const socket = connect(Number(new URL(model.url).port), '127.0.0.1')
    socket.on('error', () => {}).pause()
    socket.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
    await model.waitFor(({ state }) => state === 'open')
    return socket
  }

  it('refuses an invalid script, and names the place of the error', async () => {
    const bad = (rules: unknown): Script => ({ rules }) as Script
    await expect(startScriptedModel({ script: bad([{ turns: [{ txt: 'x' }] }]) })).rejects.toThrow(
      /rules\.0\.turns\.0\.0: is no step; write \{"text"\}/,
    )
    await expect(startScriptedModel({ script: bad([{ when: { pattern: '(' }, turns: [{ text: 'x' }] }]) })).rejects.toThrow(
      /no regular expression/,
    )
    expect(() => model.follow(bad([{ turns: [] }]))).toThrow(/rules\.0\.turns/)
    model.follow({ otherwise: 'Another.' })
    expect(tongues.gemini?.read(await (await post(tongues.gemini.path(false), tongues.gemini.ask('slowly', false))).json()).text).toBe(
      'Another.',
    )
  })

  it('waitFor rejects at the deadline with a message', async () => {
    await expect(model.waitFor(() => false, 20)).rejects.toThrow('No request that fits came within 20 ms; 0 came.')
  })
})
