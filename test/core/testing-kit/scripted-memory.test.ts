import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type ScriptedModel, startScriptedModel } from '../../../src/scripted-model/index.ts'
import { Plot } from '../../../src/scripted-model/plot.ts'
import { tongues } from '../../support/tongues.ts'

/** The memory of the scripted model is bounded, whatever agents send. */

let model: ScriptedModel
beforeEach(async () => {
  model = await startScriptedModel({
    script: { rules: [{ when: { prompt: 'run it' }, turns: [{ shell: 'echo hi' }, { text: 'It ran.' }] }] },
  })
})
afterEach(async () => await model.close())

const post = (path: string, body: unknown): Promise<Response> =>
  fetch(`${model.url}${path}`, { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) })

it('scripted model: keeps the latest thousand requests, and the bodies of the latest hundred', async () => {
  const body = JSON.stringify(tongues['openai-chat']?.ask('x', false))
  for (let sent = 0; sent < 1_010; sent += 10)
    await Promise.all(Array.from({ length: 10 }, async () => await (await post('/v1/chat/completions', body)).arrayBuffer()))
  expect(model.requests).toHaveLength(1_000)
  expect(model.requests.filter((one) => one.body !== undefined)).toHaveLength(100)
  const { requests } = (await (await fetch(`${model.url}/requests`)).json()) as { requests: unknown[] }
  expect(requests).toHaveLength(1_000)
})

it('scripted model: keeps at most 32 MiB of bodies, and the first 64 Ki characters of prompts and tool results', async () => {
  const long = 'x'.repeat(9 * 1024 * 1024)
  for (const prompt of ['a', 'b', 'c', 'd']) await post('/v1/chat/completions', tongues['openai-chat']?.answered(`${prompt}${long}`, 'hi'))
  expect(model.requests.map(({ prompt, body }) => [prompt.slice(0, 2), prompt.length, body !== undefined])).toEqual([
    ['ax', 65_536, false],
    ['bx', 65_536, true],
    ['cx', 65_536, true],
    ['dx', 65_536, true],
  ])
  await post('/v1/chat/completions', tongues['openai-chat']?.answered('run it', long))
  expect(model.requests.at(-1)).toMatchObject({ rule: 0, toolResults: ['x'.repeat(65_536)] })
})

it('scripted model: a kept part of a text does not keep the whole text in memory', async () => {
  setFlagsFromString('--expose-gc')
  const heap = (): number => {
    runInNewContext('gc')()
    return process.memoryUsage().heapUsed
  }
  const ask = async (sent: number): Promise<unknown> =>
    await post('/v1/chat/completions', tongues['openai-chat']?.ask(`${sent} ${'y'.repeat(3e6)}`, false)).then((answer) =>
      answer.arrayBuffer(),
    )
  for (let sent = 0; sent < 15; sent++) await ask(sent)
  const before = heap()
  for (let sent = 0; sent < 30; sent++) await ask(sent)
  // 90 MB were sent after `before` was measured. The 32 MiB that the model keeps of request bodies were already full then.
  expect(heap() - before).toBeLessThan(40e6)
})

it('Plot: drops the oldest error counts after ten thousand sessions', () => {
  const plot = new Plot({ rules: [{ turns: [[{ error: 500, times: 1 }, { text: 'Now.' }]] }] })
  const conversation = { model: 'm', prompt: 'x', system: '', tools: [], toolResults: [], turn: 0, isStreaming: true }
  const isRefused = (session: number): boolean => plot.next(conversation, `${session}`).steps.length === 2
  for (let session = 0; session < 10_000; session++) expect(isRefused(session)).toBe(true)
  expect(isRefused(0)).toBe(false)
  expect(isRefused(10_000)).toBe(true)
  expect(isRefused(9_999)).toBe(false)
  expect(isRefused(0)).toBe(true)
})
