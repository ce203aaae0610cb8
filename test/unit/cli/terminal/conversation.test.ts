import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ConversationView } from '../../../../src/cli/terminal/conversation.ts'
import { colours, noColours } from '../../../../src/cli/terminal/palette.ts'
import { harmless, widthOf } from '../../../../src/cli/terminal/text.ts'
import type { Message, MessageBody } from '../../../../src/core/model/message.ts'
import { messageTypes } from '../../../../src/core/model/message.ts'

const esc = '\u001b'

const numbered = (bodies: readonly MessageBody[]): readonly Message[] =>
  bodies.map((body, index) => ({
    ...body,
    id: String(index),
    agentId: 'a',
    sequenceNumber: index + 1,
    createdAt: '2026-11-16T12:00:00.000Z',
  }))

interface Shown {
  readonly out: string
  readonly err: string
}

function show(bodies: readonly MessageBody[], width = 60, palette = noColours, isErrorSeen = true): Shown {
  let out = ''
  let err = ''
  const view = new ConversationView(
    {
      style: { width, palette },
      errorStyle: { width: isErrorSeen ? width : undefined, palette },
      write: (text) => {
        out += text
      },
      writeError: (text) => {
        if (isErrorSeen) out += text
        else err += text
      },
    },
    { resultLines: 3 },
  )
  for (const message of numbered(bodies)) view.show([message])
  view.end()
  return { out, err }
}

const golden = (provider: string): readonly MessageBody[] => {
  const file = join(import.meta.dirname, '..', '..', '..', 'fixtures', 'transcripts', `${provider}.golden.json`)
  return (JSON.parse(readFileSync(file, 'utf8')) as { messages: MessageBody[] }[]).flatMap(({ messages }) => messages)
}

describe('conversation view', () => {
  it('shows the prompt, text wrapped at words, a line for a tool, and a few lines of its result', () => {
    const result = Array.from({ length: 123 }, (_, index) => `line ${index}`).join('\n')
    const { out } = show(
      [
        { type: 'user', content: 'Fix the flaky test' },
        { type: 'assistant', content: 'The test waits for a fixed time, which on a busy machine is too short.' },
        { type: 'tool', content: 'Bash: npm test\nand more', metadata: { tool: 'Bash', toolUseId: 't1' } },
        { type: 'tool', content: result, metadata: { toolUseId: 't1', isError: false } },
        { type: 'assistant', content: 'All done.' },
        { type: 'response', content: 'All done.', metadata: { isError: false, durationMs: 5 } },
      ],
      50,
    )
    expect(out).toBe(`❯ Fix the flaky test

⏺ The test waits for a fixed time, which on a busy
  machine is too short.

⏺ Bash  npm test and more
  ⎿ line 0
    line 1
    line 2
    … 120 more lines

⏺ All done.
`)
  })

  it('shows a long prompt shortened, and once', () => {
    const registry = Array.from({ length: 200 }, (_, index) => `+ line ${index}`).join('\n')
    const { out } = show([
      { type: 'user', content: registry },
      { type: 'user', content: `${registry}\n` },
      { type: 'user', content: 'and this' },
    ])
    expect(out).toBe('❯ + line 0\n  + line 1\n  + line 2\n  … 197 more lines\n\n❯ and this\n')
  })

  it('keeps a tool with a wide name on its line', () => {
    for (const width of [20, 40, 60]) {
      const metadata = { tool: '界'.repeat(40) }
      const { out } = show([{ type: 'tool', content: 'words '.repeat(40), metadata }], width)
      expect(out).toContain('界')
      for (const line of out.split('\n')) expect(widthOf(line)).toBeLessThanOrEqual(width)
    }
  })

  it('shows a result that is one line too long completely', () => {
    const { out } = show([{ type: 'tool', content: 'a\nb\nc\nd\n', metadata: { toolUseId: 't1' } }])
    expect(out).toBe('  ⎿ a\n    b\n    c\n    d\n')
  })

  it('shows a call and its result once when the program repeats the call with the result', () => {
    const call = "/bin/bash -lc 'echo\nhi'"
    const { out } = show([
      { type: 'tool', content: call, metadata: { tool: 'shell', toolUseId: 'i2', status: 'in_progress' } },
      { type: 'tool', content: `${call}\nhi\n`, metadata: { tool: 'shell', toolUseId: 'i2', status: 'completed', exitCode: 0 } },
      { type: 'tool', content: 'bash: echo out\nout\n', metadata: { tool: 'bash', toolUseId: 'c1', status: 'completed', isError: false } },
      { type: 'tool', content: 'bash: true', metadata: { tool: 'bash', toolUseId: 'c2', status: 'completed', isError: false } },
    ])
    expect(out).toBe("⏺ shell  /bin/bash -lc 'echo hi'\n  ⎿ hi\n\n⏺ bash  echo out\n  ⎿ out\n\n⏺ bash  true\n")
  })

  it('wraps text that arrives in pieces as if it had arrived at once', () => {
    const pieces = ['The qu', 'ick brown ', 'fox jumps', ' over', ' the lazy dog.']
    const bodies = pieces.map((content): MessageBody => ({ type: 'assistant', content, metadata: { delta: true } }))
    const { out } = show([...bodies, { type: 'response', content: 'Done.', metadata: { isError: false } }], 24)
    expect(out).toBe('⏺ The quick brown fox\n  jumps over the lazy\n  dog.\n')
  })

  it('shows every line, even invalid UTF-8 and truncated lines', () => {
    const bodies: MessageBody[] = [
      { type: 'response', content: 'caf\ufffd', metadata: { invalidUtf8: true } },
      { type: 'response', content: 'th\ufffd', metadata: { invalidUtf8: true } },
      { type: 'response', content: 'the beginning', metadata: { truncated: true, totalBytes: 9_000_000 } },
      { type: 'response', content: 'the end' },
    ]
    expect(show(bodies).out).toBe('caf\ufffd\nth\ufffd\nthe beginning\nthe end\n')
  })

  it('shows errors separately and once, and sends them to stderr when that is not the terminal', () => {
    const bodies: MessageBody[] = [
      { type: 'response', content: 'plain output' },
      { type: 'error', content: 'oops' },
      { type: 'error', content: 'oops' },
      { type: 'response', content: 'more' },
    ]
    expect(show(bodies).out).toBe('plain output\n\n✗ oops\n\nmore\n')
    expect(show(bodies, 60, noColours, false)).toEqual({ out: 'plain output\nmore\n', err: 'oops\noops\n' })
    const same: MessageBody = { type: 'error', content: 'again', metadata: { stream: 'stderr' } }
    expect(show([same, same]).out).toBe('✗ again\n✗ again\n')
  })

  it.each(['claude-code', 'codex', 'gemini-cli', 'opencode', 'command'])(
    'with %s fits every width and loses no text of the agent',
    (provider) => {
      const bodies = golden(provider)
      const texts = bodies.filter(({ type, metadata }) => type === 'assistant' && !metadata?.error).map(({ content }) => content)
      for (const width of [20, 60, 100, 200]) {
        const { out } = show(bodies, width, colours)
        for (const line of out.split('\n')) expect(widthOf(harmless(line))).toBeLessThanOrEqual(width)
        const flat = harmless(out).replaceAll(/\s+/g, '')
        for (const text of texts) expect(flat).toContain(text.replaceAll(/\s+/g, ''))
      }
    },
  )

  it('is never wider than the terminal, and has no control sequences but its own colours', () => {
    const bodies = fc.array(
      fc.record({
        type: fc.constantFrom(...messageTypes),
        content: fc.oneof(
          fc.string({ unit: 'binary', maxLength: 300 }),
          fc.constant('\u001b[2J\u001b]0;x\u0007\u009b5A'),
          fc.constant(`${'界'.repeat(70)}\tx`),
        ),
        metadata: fc.record(
          { tool: fc.string(), toolUseId: fc.constantFrom('a', 'b'), delta: fc.boolean(), isError: fc.boolean(), thinking: fc.boolean() },
          { requiredKeys: [] },
        ),
      }),
      { maxLength: 6 },
    )
    fc.assert(
      fc.property(bodies, fc.integer({ min: 20, max: 90 }), (messages, width) => {
        const { out } = show(messages, width, colours)
        const words = out.replaceAll(new RegExp(`${esc}\\[\\d+m`, 'g'), '')
        expect(words).not.toMatch(/[^\P{Cc}\n]/u)
        for (const line of words.split('\n')) expect(widthOf(line)).toBeLessThanOrEqual(width)
      }),
    )
  })
})
