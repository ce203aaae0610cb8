import { describe, expect, it } from 'vitest'
import { opencode } from '../../../src/providers/opencode.ts'
import { invoke, itIsAProvider } from './provider-cases.ts'

const base = ['opencode', 'run', '--format=json', '--auto']

function contentOf(env: Readonly<Record<string, string>> | undefined): unknown {
  return JSON.parse(env?.OPENCODE_CONFIG_CONTENT ?? 'null')
}

describe('opencode', () => {
  itIsAProvider(opencode, {
    types: ['text', 'reasoning', 'tool_use', 'step_start', 'step_finish', 'error', 'ContextOverflowError'],
    fields: ['part', 'text', 'tool', 'state', 'input', 'output', 'status', 'error', 'name', 'data', 'message', 'reason', 'tokens', 'cost'],
  })

  it('invoke: approves everything, and has the default polite signal', () => {
    expect(invoke(opencode)).toEqual({ argv: base, env: {}, stdin: 'Fix it.' })
  })

  it.each([
    ['a model', { model: 'anthropic/claude-sonnet-5' }, ['--model=anthropic/claude-sonnet-5']],
    ['a session to resume', { sessionId: 'ses_1' }, ['--session=ses_1']],
    ['an absolute working directory', { workingDirectory: '/home/me/project' }, ['--dir=/home/me/project']],
    ['no relative working directory, which opencode would resolve against itself', { workingDirectory: 'project' }, []],
  ])('invoke: passes %s', (_, configuration, expected) => {
    expect(invoke(opencode, configuration).argv).toEqual([...base, ...expected])
  })

  it('invoke: uses text output on request', () => {
    expect(invoke(opencode, { outputFormat: 'text' }).argv).not.toContain('--format=json')
  })

  it('invoke: puts instructions in front of the prompt', () => {
    expect(invoke(opencode, { instructions: 'Be kind.' }).stdin).toBe('Be kind.\n\nFix it.')
  })

  it('invoke: tool lists override what the configuration of the user allows', () => {
    const { argv, env } = invoke(opencode, { allowedTools: ['read', 'write'], disallowedTools: ['bash'] })
    const rules = { '*': 'deny', read: 'allow', edit: 'allow', bash: 'deny' }
    expect(contentOf(env)).toEqual({ permission: rules, agent: { build: { permission: rules } } })
    // opencode uses the last permission rule that matches a tool, so the rule for `*` comes first.
    expect(env?.OPENCODE_CONFIG_CONTENT?.indexOf('"*"')).toBeLessThan(env?.OPENCODE_CONFIG_CONTENT?.indexOf('"read"') ?? 0)
    expect(argv).toEqual([...base, '--agent=build'])
  })

  it('invoke: disallowedTools denies only these tools', () => {
    expect(contentOf(invoke(opencode, { disallowedTools: ['webfetch'] }).env)).toMatchObject({ permission: { webfetch: 'deny' } })
    expect(contentOf(invoke(opencode, { disallowedTools: ['webfetch'] }).env)).not.toHaveProperty(['permission', '*'])
  })

  it('invoke: passes MCP servers in the environment', () => {
    const servers = [
      { name: 'a', command: 'node', args: ['a.mjs'], env: { TOKEN: 'secret' } },
      { name: 'far', command: 'https://example.test/mcp', transport: 'sse' },
    ]
    const { argv, env } = invoke(opencode, { mcp: { servers } })
    expect(argv).toEqual(base)
    expect(contentOf(env)).toEqual({
      mcp: {
        a: { type: 'local', command: ['node', 'a.mjs'], environment: { TOKEN: 'secret' }, enabled: true },
        far: { type: 'remote', url: 'https://example.test/mcp', enabled: true },
      },
    })
  })

  it.each([
    ['strict MCP servers', { mcp: { servers: [], strict: true } }],
    ['tools together with OPENCODE_CONFIG_CONTENT in the environment', { allowedTools: ['read'], env: { OPENCODE_CONFIG_CONTENT: '{}' } }],
  ])('invoke: refuses %s, which opencode cannot enforce', (_, configuration) => {
    expect(() => invoke(opencode, configuration)).toThrow(expect.objectContaining({ code: 'launch_refused' }))
  })

  it('parse: an error is a failure, except a context overflow', () => {
    const line = (name: string): string => JSON.stringify({ type: 'error', error: { name, data: { message: 'no' } } })
    expect(opencode.parse(line('APIError')).result).toEqual({ isSuccess: false, error: { name: 'APIError', message: 'no' } })
    expect(opencode.parse(line('ContextOverflowError'))).not.toHaveProperty('result')
  })
})
