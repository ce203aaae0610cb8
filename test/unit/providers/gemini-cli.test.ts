import { describe, expect, it } from 'vitest'
import { geminiCli } from '../../../src/providers/gemini-cli.ts'
import { invoke, itIsAProvider } from './provider-cases.ts'

const base = ['gemini', '--output-format=stream-json']

describe('gemini-cli', () => {
  itIsAProvider(geminiCli, {
    types: ['init', 'message', 'tool_use', 'tool_result', 'error', 'result'],
    fields: [
      'role',
      'content',
      'delta',
      'tool_name',
      'tool_id',
      'parameters',
      'status',
      'output',
      'error',
      'stats',
      'model',
      'severity',
      'message',
    ],
  })

  it('invoke: approves everything, does not relaunch itself, and the polite signal is SIGTERM', () => {
    expect(invoke(geminiCli)).toEqual({
      argv: [...base, '--approval-mode=yolo'],
      env: { GEMINI_CLI_NO_RELAUNCH: 'true', GEMINI_CLI_TRUST_WORKSPACE: 'true' },
      stdin: 'Fix it.',
      politeSignal: 'SIGTERM',
    })
  })

  it('invoke: allowedTools denies all other tools', () => {
    expect(invoke(geminiCli, { allowedTools: ['write_file', 'run_shell_command(git)'] }).argv).toEqual([
      ...base,
      '--approval-mode=default',
      '--allowed-tools=write_file,run_shell_command(git)',
    ])
  })

  it.each([
    ['a model', { model: 'flash' }, ['--model=flash']],
    ['a session to resume', { sessionId: 'bb5f5829' }, ['--resume=bb5f5829']],
    ['no MCP servers', { mcp: { servers: [] } }, []],
  ])('invoke: passes %s', (_, configuration, expected) => {
    expect(invoke(geminiCli, configuration).argv).toEqual([...base, '--approval-mode=yolo', ...expected])
  })

  it('invoke: uses another output format on request', () => {
    expect(invoke(geminiCli, { outputFormat: 'json' }).argv).toContain('--output-format=json')
  })

  it('invoke: puts instructions in front of the prompt', () => {
    expect(invoke(geminiCli, { instructions: 'Be kind.' }).stdin).toBe('Be kind.\n\nFix it.')
  })

  it.each([
    ['disallowed tools', { disallowedTools: ['write_file'] }],
    ['MCP servers', { mcp: { servers: [{ name: 'a', command: 'a' }] } }],
    ['strict MCP servers', { mcp: { servers: [], strict: true } }],
  ])('invoke: refuses %s, which Gemini CLI does not support', (_, configuration) => {
    expect(() => invoke(geminiCli, configuration)).toThrow(expect.objectContaining({ code: 'launch_refused' }))
  })

  it('parse: a warning is not a failure', () => {
    expect(geminiCli.parse('{"type":"error","severity":"warning","message":"Loop detected"}')).not.toHaveProperty('result')
  })
})
