import type { Provider } from '../core/ports/provider.ts'
import { claudeCode } from './claude-code.ts'
import { codex } from './codex.ts'
import { geminiCli } from './gemini-cli.ts'
import { opencode } from './opencode.ts'

/** Those with a program that people install, and may also run by themselves. */
export const installed: readonly Provider[] = [claudeCode, codex, geminiCli, opencode]

/** Every type of agents; the last two need no program. */
export const providerTypes: readonly string[] = [...installed.map(({ type }) => type), 'command', 'synthetic']
