import type { Provider } from '../core/ports/provider.ts'
import { claudeCode } from './claude-code.ts'
import { codex } from './codex.ts'
import { command } from './command.ts'
import { geminiCli } from './gemini-cli.ts'
import { opencode } from './opencode.ts'
import { synthetic } from './synthetic.ts'

/**
 * Every provider. A new one is a file with a provider, and a line here. The name of its program is repeated in programs.ts, which a test
 * compares with this list. `syntheticAgent` is the program that a synthetic agent with a process runs.
 */
export const providers = (syntheticAgent: string): readonly Provider[] => [
  claudeCode,
  codex,
  geminiCli,
  opencode,
  command,
  synthetic(syntheticAgent),
]

/** The providers whose program users install, and may also run without Ebb. */
export const installed: readonly Provider[] = providers('').filter(({ program }) => program !== undefined)

export const providerTypes: readonly string[] = providers('').map(({ type }) => type)
