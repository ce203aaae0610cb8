import { EbbError } from '../core/model/errors.ts'
import type { LaunchBody } from './agent-backend.ts'
import type { Arguments } from './arguments.ts'

/** The part of a launch that the words of `ebb run` give. */
export type RunInput = Pick<LaunchBody, 'type' | 'prompt' | 'configuration'>

/** Reads provider and prompt. For `command`, the words after `--` are the command, and those before are its standard input. */
export async function readRunInput({ words, rest }: Arguments): Promise<RunInput> {
  const [type = '', ...before] = words.length > 0 ? words : rest
  const after = words.length > 0 ? rest : []
  if (type !== 'command') return { type, prompt: await promptOf([...before, ...after], type), configuration: {} }
  if (after.length === 0)
    throw new EbbError('bad_usage', '"ebb run command" needs a COMMAND after "--", as in: ebb run command -- npm test')
  return { type, prompt: before.length > 0 ? await promptOf(before, type) : '', configuration: { command: after } }
}

/** Joins the words of the prompt. A single `-` reads the prompt from standard input. */
async function promptOf(words: readonly string[], type: string): Promise<string> {
  if (words.length === 0)
    throw new EbbError(
      'bad_usage',
      `"ebb run" needs a PROMPT, as in: ebb run ${type} "Fix the flaky test"; "-" reads it from standard input.`,
    )
  if (words.length > 1 || words[0] !== '-') return words.join(' ')
  const chunks: Buffer[] = []
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString('utf8')
}
