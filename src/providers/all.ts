import type { Provider } from '../core/ports/provider.ts'
import { claudeCode } from './claude-code.ts'
import { codex } from './codex.ts'
import { geminiCli } from './gemini-cli.ts'
import { opencode } from './opencode.ts'

/** The providers whose program users install, and may also run without Ebb. */
export const installed: readonly Provider[] = [claudeCode, codex, geminiCli, opencode]

/** All provider types; the last two need no installed program. */
export const providerTypes: readonly string[] = [...installed.map(({ type }) => type), 'command', 'synthetic']
