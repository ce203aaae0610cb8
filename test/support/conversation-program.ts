import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Creates a program called `claude` in a folder. The program reads its prompt, prints `lines` in the format of Claude Code, and then runs
 * the shell command `then`.
 */
export function speakingClaude(folder: string, lines: readonly object[], then = 'true'): string {
  const script = join(folder, 'claude')
  writeFileSync(`${script}.jsonl`, lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
  writeFileSync(script, `#!/bin/sh\ncat > /dev/null\ncat "$0.jsonl"\n${then}\n`)
  chmodSync(script, 0o755)
  return script
}

export const speech = {
  text: (text: string) => ({ type: 'assistant', message: { role: 'assistant', content: [{ type: 'text', text }] } }),
  call: (id: string, name: string, input: object) => ({
    type: 'assistant',
    message: { role: 'assistant', content: [{ type: 'tool_use', id, name, input }] },
  }),
  result: (id: string, content: string) => ({
    type: 'user',
    message: { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content }] },
  }),
  end: (result: string) => ({ type: 'result', subtype: 'success', is_error: false, num_turns: 1, result }),
} as const
