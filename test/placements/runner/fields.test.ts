import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { temporaryHome } from '../../support/home.ts'
import { useServer } from '../../support/shared-server.ts'
import { RunnerClient } from './client.ts'

/**
 * Tests the effect of the fields of the runner protocol. A script named `claude`, first in the PATH, prints its arguments and its input.
 */

const echoProgram = `#!/bin/sh
case "$*" in --version) echo 1.0; exit;; esac
for word in "$@"; do echo "argument $word"; done
echo "folder $(pwd)"
sed 's/^/input /'
while [ $# -gt 0 ]; do
  if [ "$1" = --mcp-config ]; then cat "$2"; fi
  case "$1" in --mcp-config=*) cat "\${1#--mcp-config=}";; esac
  shift
done
`

function programs(): string {
  const folder = temporaryHome()
  writeFileSync(join(folder, 'claude'), echoProgram)
  chmodSync(join(folder, 'claude'), 0o755)
  return folder
}

const folder = programs()
const server = useServer(['--runner'], { env: { PATH: `${folder}:${process.env.PATH ?? ''}` } })

async function outputOf(body: object): Promise<{ readonly words: readonly string[]; readonly text: string }> {
  const stream = await new RunnerClient(server.url).stream(body)
  await stream.closed
  expect(stream.last?.name).toBe('complete')
  const words = stream.lines.filter((line) => line.startsWith('argument ')).map((line) => line.slice('argument '.length))
  return { words, text: stream.lines.join('\n') }
}

/** Returns the value of a flag that is given as `--flag=value` or `--flag value`. */
function flagValue(words: readonly string[], flag: string): string | undefined {
  const joined = words.find((word) => word.startsWith(`${flag}=`))
  return joined === undefined ? words[words.indexOf(flag) + 1] : joined.slice(flag.length + 1)
}

describe('the fields of the runner protocol', () => {
  it('reach the program, which is Claude Code by default', async () => {
    const working_directory = temporaryHome()
    const { words, text } = await outputOf({
      prompt: 'What is said\n',
      session_id: 'c0ffee00-0000-4000-8000-000000000001',
      model: 'sonnet',
      working_directory,
      mcp_config: JSON.stringify({
        mcpServers: {
          far: { type: 'http', url: 'https://tools.example/mcp', description: 'nobody’s business' },
          near: { command: 'notes-server', args: ['-v'] },
        },
      }),
      mcp_strict: true,
      allowed_tools: 'Read, Bash(git log, git diff)',
      disallowed_tools: ['WebFetch', 'WebSearch'],
    })
    expect(text).toContain('input What is said')
    expect(text).toContain(`folder ${working_directory}`)
    expect(flagValue(words, '--resume')).toBe('c0ffee00-0000-4000-8000-000000000001')
    expect(flagValue(words, '--model')).toBe('sonnet')
    expect(words).toContain('--strict-mcp-config')
    const tools = words.filter((word) => /--allowedTools|^Read$|Bash\(/.test(word)).join(' ')
    expect(tools).toMatch(/Read/)
    // The comma inside the parentheses is part of one rule, and does not separate two rules.
    expect(tools).toContain('Bash(git log, git diff)')
    expect(words.join(' ')).toMatch(/--disallowedTools.*WebFetch.*WebSearch/)
    const config = JSON.parse(text.slice(text.indexOf('{\n')))
    expect(config).toEqual({
      mcpServers: {
        far: { type: 'http', url: 'https://tools.example/mcp' },
        near: { type: 'stdio', command: 'notes-server', args: ['-v'], env: {} },
      },
    })
  })

  it('count as absent when they are empty texts', async () => {
    const nothing = { session_id: '', model: '', working_directory: '', mcp_config: '', allowed_tools: '', disallowed_tools: '' }
    const { words } = await outputOf({ prompt: 'x', type: '', ...nothing })
    for (const flag of ['--resume', '--model', '--mcp-config', '--allowedTools', '--disallowedTools'])
      expect(words.filter((word) => word.startsWith(flag))).toEqual([])
    expect(words).toContain('--dangerously-skip-permissions')
  })
})
