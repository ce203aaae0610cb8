import { describe, expect, it } from 'vitest'
import { codex } from '../../../src/providers/codex.ts'
import { invoke, itIsAProvider } from './provider-cases.ts'

const options = ['--json', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox']

describe('codex', () => {
  itIsAProvider(codex, {
    types: [
      'thread.started',
      'turn.started',
      'turn.completed',
      'turn.failed',
      'error',
      'item.started',
      'item.updated',
      'item.completed',
      'agent_message',
      'reasoning',
      'command_execution',
      'file_change',
      'mcp_tool_call',
      'web_search',
      'todo_list',
    ],
    fields: ['item', 'id', 'text', 'message', 'command', 'changes', 'items', 'arguments', 'result', 'error', 'status', 'usage', 'server'],
  })

  it('invoke: the prompt is on the standard input, approvals are off, and the polite signal is SIGINT', () => {
    expect(invoke(codex)).toEqual({ argv: ['codex', 'exec', ...options, '-'], env: {}, stdin: 'Fix it.', politeSignal: 'SIGINT' })
  })

  it.each([
    ['a model', { model: 'gpt-6-luna' }, ['--model=gpt-6-luna']],
    ['instructions', { instructions: '-- "be" kind\n\u007f' }, ['--config=developer_instructions="-- \\"be\\" kind\\n\\u007f"']],
    ['half a character', { instructions: '\ud800' }, ['--config=developer_instructions="\ufffd"']],
    ['no MCP servers', { mcp: { servers: [] } }, []],
  ])('invoke: passes %s', (_, configuration, expected) => {
    expect(invoke(codex, configuration).argv).toEqual(['codex', 'exec', ...options, ...expected, '-'])
  })

  it('invoke: resumes a session', () => {
    expect(invoke(codex, { sessionId: '01a1df26', model: 'm' }).argv).toEqual([
      'codex',
      'exec',
      'resume',
      ...options,
      '--model=m',
      '01a1df26',
      '-',
    ])
  })

  it('invoke: uses text output on request', () => {
    expect(invoke(codex, { outputFormat: 'text' }).argv).not.toContain('--json')
  })

  it('invoke: puts instructions in front of the prompt when they are too long for an argument', () => {
    const instructions = 'é'.repeat(70_000)
    const { argv, stdin } = invoke(codex, { instructions })
    expect(argv).toEqual(['codex', 'exec', ...options, '-'])
    expect(stdin).toBe(`${instructions}\n\nFix it.`)
  })

  it('invoke: passes MCP servers without their secrets in an argument, and forwards the environment tag', () => {
    const servers = [
      { name: 'my.own', command: 'node', args: ['a b'], env: { TOKEN: 'secret' } },
      { name: 'bare', command: 'bare' },
      { name: 'far', command: 'https://example.test/mcp', transport: 'http' },
    ]
    const { argv, env } = invoke(codex, { mcp: { servers } })
    expect(argv.at(-2)).toBe(
      '--config=mcp_servers={"my.own"={command="/bin/sh",' +
        'args=["-c","export TOKEN=\\"$AGENT_MCP_0_0\\"; unset AGENT_MCP_0_0; exec \\"$0\\" \\"$@\\"","node","a b"],' +
        'env_vars=["EBB_SCOPE","AGENT_MCP_0_0"]},' +
        '"bare"={command="bare",args=[],env_vars=["EBB_SCOPE"]},' +
        '"far"={url="https://example.test/mcp"}}',
    )
    expect(argv.join(' ')).not.toContain('secret')
    expect(env).toEqual({ AGENT_MCP_0_0: 'secret' })
  })

  it.each([
    ['allowed tools', { allowedTools: ['shell'] }],
    ['disallowed tools', { disallowedTools: ['shell'] }],
    ['strict MCP servers', { mcp: { servers: [], strict: true } }],
    ['a variable that no shell can name', { mcp: { servers: [{ name: 'a', command: 'a', env: { 'A;reboot': '1' } }] } }],
  ])('invoke: refuses %s, which codex cannot enforce', (_, configuration) => {
    expect(() => invoke(codex, configuration)).toThrow(expect.objectContaining({ code: 'launch_refused' }))
  })

  it('parse: an error while reconnecting is not a failure', () => {
    expect(codex.parse('{"type":"error","message":"Reconnecting... 1/5"}')).not.toHaveProperty('result')
    expect(codex.parse('{"type":"item.completed","item":{"type":"error","message":"No metadata"}}')).not.toHaveProperty('result')
  })
})
