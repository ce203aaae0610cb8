import { afterEach, beforeEach, expect, it } from 'vitest'
import { type ScriptedModel, startScriptedModel } from '../../../src/scripted-model/index.ts'
import { tongues } from '../../support/tongues.ts'

/** Requests that an agent makes for its own purposes (asides) do not use the script; all other requests do. */

let model: ScriptedModel
beforeEach(async () => {
  model = await startScriptedModel({ script: { rules: [{ when: { prompt: 'slowly' }, turns: [{ text: 'One piece after another.' }] }] } })
})
afterEach(async () => await model.close())

const post = (path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(`${model.url}${path}`, { method: 'POST', body: JSON.stringify(body), headers })

it('scripted model: answers asides of agents without the script', async () => {
  const responseJsonSchema = {
    type: 'object',
    properties: { reason: { type: 'string' }, score: { type: 'integer', minimum: 3 }, who: { enum: ['user', 'model'] } },
  }
  const chosen = await post(
    '/v1beta/models/gemini-x:generateContent',
    {
      contents: [{ role: 'user', parts: [{ text: 'run it' }] }],
      generationConfig: { responseMimeType: 'application/json', responseJsonSchema },
    },
    { 'user-agent': 'GeminiCLI/1.0' },
  )
  expect(JSON.parse(tongues.gemini?.read(await chosen.json()).text ?? '')).toEqual({ reason: expect.any(String), score: 3, who: 'user' })
  const messages = [
    { role: 'system', content: 'You are a title generator. You output ONLY a thread title.' },
    { role: 'user', content: 'silence' },
  ]
  expect((await post('/v1/chat/completions', { model: 'm', messages }, { 'user-agent': 'opencode/1.18' })).status).toBe(200)
  expect(model.requests.map(({ isAside, rule }) => [isAside, rule])).toEqual([
    [true, -1],
    [true, -1],
  ])
  const asked = [
    { role: 'system', content: 'You are no title generator.' },
    { role: 'user', content: 'slowly' },
  ]
  const tools = [{ function: { name: 'bash' } }]
  await post('/v1/chat/completions', { model: 'm', messages: asked, tools }, { 'user-agent': 'opencode/1.18' })
  expect(model.requests.at(-1)).toMatchObject({ isAside: false, rule: 0 })
})

it('scripted model: uses the script for a title request of a program that is not an agent', async () => {
  const title = { role: 'system', content: 'Generate a short title for this ticket.' }
  const asked = await post('/v1/chat/completions', { model: 'm', messages: [title, { role: 'user', content: 'slowly' }] })
  expect(tongues['openai-chat']?.read(await asked.json()).text).toBe('One piece after another.')
})
