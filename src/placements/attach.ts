import { EbbError } from '../core/model/errors.ts'
import type { AttachmentParts } from './definition.ts'
import { terminalOf } from './registry.ts'

/** Connects this terminal to that of an agent, until the person detaches. Returns the exit code. */
export async function attach(
  { id, placement }: { readonly id: string; readonly placement: string },
  parts: AttachmentParts,
): Promise<number> {
  const terminal = terminalOf(placement)
  if (!terminal) throw new EbbError('bad_usage', `The agent ${id} has the placement ${placement}, which has no terminal.`)
  const { argv, environment } = await terminal.attachment(id, parts)
  const child = await parts.effects.spawn({ program: argv[0] ?? '', argv, env: environment, stdio: ['inherit', 'inherit', 'inherit'] })
  return (await child.exit).code ?? 1
}
