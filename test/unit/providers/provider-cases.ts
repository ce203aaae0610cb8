import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { messageTypes } from '../../../src/core/model/message.ts'
import type { Configuration, Invocation, Parsed, Provider } from '../../../src/core/ports/provider.ts'

/** Test cases that every provider must pass, and the transcripts that were recorded from the real programs. */

export function invoke(provider: Provider, configuration: Configuration = {}, prompt = 'Fix it.'): Invocation {
  return provider.invoke({ agentId: '2b1f3c1e-6a58-4a07-9a55-0d9c5d7a4a11', prompt, configuration })
}

const folder = join(import.meta.dirname, '..', '..', 'fixtures', 'transcripts')

/**
 * Compares the parsed transcript with the golden file, which has the expected result without the raw objects. These are in the transcript.
 */
function itReadsItsTranscript(provider: Provider): void {
  it('parse: the recorded transcript gives the golden result', () => {
    const lines = readFileSync(join(folder, `${provider.type}.jsonl`), 'utf8')
      .split('\n')
      .slice(0, -1)
    const golden: unknown = JSON.parse(readFileSync(join(folder, `${provider.type}.golden.json`), 'utf8'))
    const parsed = lines.map((line) => provider.parse(line))
    expect(parsed.map(withoutRaw)).toEqual(golden)
    expect(parsed.map(({ messages }) => messages.map((message) => message.raw))).toEqual(
      parsed.map(({ messages }, at) => [objectIn(lines[at] ?? ''), ...messages.slice(1).map(() => undefined)]),
    )
  })
}

function withoutRaw({ messages, ...rest }: Parsed): unknown {
  return JSON.parse(JSON.stringify({ messages: messages.map((message) => ({ ...message, raw: undefined })), ...rest }))
}

function objectIn(line: string): unknown {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && !Array.isArray(value) ? (value ?? undefined) : undefined
  } catch {
    return undefined
  }
}

function requireSound(parsed: Parsed): void {
  expect(parsed.messages.length).toBeGreaterThan(0)
  for (const message of parsed.messages) {
    expect(messageTypes).toContain(message.type)
    expect(typeof message.content).toBe('string')
  }
  // Messages must be serializable, because they are stored as JSON.
  expect(() => JSON.stringify(parsed)).not.toThrow()
  if (parsed.result?.error) {
    expect(typeof parsed.result.error.name).toBe('string')
    expect(typeof parsed.result.error.message).toBe('string')
  }
}

const awkward = [
  '',
  ' ',
  '{',
  '{}',
  'null',
  '[]',
  '"{"',
  '{"type":null}',
  '{"type":"__proto__"}',
  '{"type":"constructor"}',
  '{"__proto__":{"type":"result"}}',
  '\0',
  '{"type":"text\\u0000"}',
  `{"type":"text","part":{"text":"${'x'.repeat(1_000_000)}"}}`,
  `{"type":"result","usage":${'['.repeat(200_000)}${']'.repeat(200_000)}}`,
  `{"type":"assistant","message":${'{"message":'.repeat(50_000)}1${'}'.repeat(50_000)}}`,
]

/** Gives the provider arbitrary text, and random lines with known `types` and `fields` whose values are arbitrary. */
function itTakesAnyLine(provider: Provider, types: readonly string[], fields: readonly string[]): void {
  it('parse: any text gives at least one message', () => {
    for (const line of awkward) requireSound(provider.parse(line))
    fc.assert(fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.json()), (line) => requireSound(provider.parse(line))))
  })

  it('parse: a known line type with arbitrary fields gives at least one message', () => {
    const word = fc.oneof(fc.constantFrom(...types), fc.jsonValue({ maxDepth: 2 }))
    const { node } = fc.letrec((tie) => ({
      node: fc.oneof(
        { maxDepth: 4 },
        word,
        fc.array(tie('node'), { maxLength: 3 }),
        fc.dictionary(fc.constantFrom('type', ...fields), tie('node'), { maxKeys: 6 }),
      ),
    }))
    const event = fc.tuple(fc.constantFrom(...types), fc.dictionary(fc.constantFrom(...fields), node, { maxKeys: 6 }))
    fc.assert(
      fc.property(event, ([type, rest]) => {
        const line = JSON.stringify({ ...rest, type })
        const parsed = provider.parse(line)
        requireSound(parsed)
        expect(parsed.messages[0].raw).toEqual(JSON.parse(line))
      }),
      { numRuns: 500 },
    )
  })

  it('parse: keeps an unknown line unchanged', () => {
    expect(provider.parse('{"type":"nobody_knows"}')).toEqual({
      messages: [{ type: 'response', content: '{"type":"nobody_knows"}', raw: { type: 'nobody_knows' } }],
    })
    for (const line of ['no JSON', '{"half":', '[1]', '7'])
      expect(provider.parse(line)).toEqual({ messages: [{ type: 'response', content: line }] })
  })
}

function itKeepsThePromptOutOfItsArguments(provider: Provider, needed: Configuration): void {
  it('invoke: passes the prompt on the standard input, and custom arguments last', () => {
    const prompt = `- a secret plan\n${'x'.repeat(200_000)}`
    const { argv, stdin } = invoke(provider, { ...needed, customArgs: ['--own', 'word'] }, prompt)
    expect(stdin).toBe(prompt)
    expect(argv.join(' ')).not.toContain('a secret plan')
    expect(argv.slice(-2)).toEqual(['--own', 'word'])
  })
}

export function itIsAProvider(
  provider: Provider,
  lines: { readonly types: readonly string[]; readonly fields: readonly string[] },
  needed: Configuration = {},
): void {
  itReadsItsTranscript(provider)
  itTakesAnyLine(provider, lines.types, lines.fields)
  itKeepsThePromptOutOfItsArguments(provider, needed)
}
