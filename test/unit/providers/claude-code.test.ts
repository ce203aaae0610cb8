import { describe, expect, it } from 'vitest'
import { claudeCode } from '../../../src/providers/claude-code.ts'
import { invoke, itIsAProvider } from './provider-cases.ts'

const base = ['claude', '--print', '--output-format=stream-json', '--verbose']
const bypass = '--dangerously-skip-permissions'

describe('claude-code', () => {
  itIsAProvider(claudeCode, {
    types: ['system', 'assistant', 'user', 'result', 'text', 'thinking', 'tool_use', 'tool_result', 'init', 'api_retry'],
    fields: ['subtype', 'message', 'content', 'text', 'input', 'name', 'id', 'is_error', 'result', 'errors', 'model', 'error', 'usage'],
  })

  it('invoke: allows all tools by default, also as root, and the polite signal is SIGINT', () => {
    expect(invoke(claudeCode)).toEqual({ argv: [...base, bypass], env: { IS_SANDBOX: '1' }, stdin: 'Fix it.', politeSignal: 'SIGINT' })
  })

  it('invoke: allowedTools denies all other tools', () => {
    const { argv, env } = invoke(claudeCode, { allowedTools: ['Bash(git *)', 'Edit'] })
    expect(argv).toEqual([...base, '--permission-mode=dontAsk', '--allowedTools=Bash(git *),Edit'])
    expect(env).toEqual({})
  })

  it('invoke: an empty list of tools counts as none', () => {
    expect(invoke(claudeCode, { allowedTools: [], disallowedTools: [] }).argv).toEqual([...base, bypass])
  })

  it.each([
    ['disallowed tools', { disallowedTools: ['Bash', 'WebFetch'] }, ['--disallowedTools=Bash,WebFetch']],
    ['a model', { model: 'haiku' }, ['--model=haiku']],
    ['a session to resume', { sessionId: '55d8d5f6-73d9-4bc5-88c9-bf941baa78f5' }, ['--resume=55d8d5f6-73d9-4bc5-88c9-bf941baa78f5']],
    ['instructions that begin with a dash', { instructions: '-- be kind' }, ['--append-system-prompt=-- be kind']],
    ['strict MCP servers', { mcp: { servers: [], strict: true } }, ['--strict-mcp-config']],
  ])('invoke: passes %s', (_, configuration, expected) => {
    expect(invoke(claudeCode, configuration).argv).toEqual([...base, bypass, ...expected])
  })

  it('invoke: uses another output format on request', () => {
    expect(invoke(claudeCode, { outputFormat: 'text' }).argv).toContain('--output-format=text')
  })

  it('invoke: puts instructions in front of the prompt when they are too long for an argument', () => {
    const instructions = 'é'.repeat(70_000)
    const { argv, stdin } = invoke(claudeCode, { instructions })
    expect(argv).toEqual([...base, bypass])
    expect(stdin).toBe(`${instructions}\n\nFix it.`)
  })

  it('invoke: passes MCP servers in a file, and their secrets in the environment', () => {
    const servers = [{ name: 'a', command: 'node', env: { TOKEN: 'secret' } }]
    const configuration = { mcp: { servers, strict: true } }
    const { argv, env } = claudeCode.invoke({ agentId: 'a', prompt: 'Fix it.', configuration, mcpFile: '/run/a.mcp.json' })
    expect(argv).toEqual([...base, bypass, '--mcp-config=/run/a.mcp.json', '--strict-mcp-config'])
    expect(env).toEqual({ IS_SANDBOX: '1', AGENT_MCP_0_0: 'secret' })
  })

  it('parse: a result with is_error is a failure, whatever its subtype', () => {
    const line = '{"type":"result","subtype":"success","is_error":true,"result":"API Error: 400"}'
    expect(claudeCode.parse(line).result).toEqual({ isSuccess: false, error: { name: 'agent_failed', message: 'API Error: 400' } })
  })

  it('parse: without is_error the subtype decides', () => {
    expect(claudeCode.parse('{"type":"result","subtype":"success"}').result).toEqual({ isSuccess: true })
    expect(claudeCode.parse('{"type":"result","subtype":"error_max_turns"}').result?.isSuccess).toBe(false)
  })
})
