import { type AgentProgram, baseName, isShell } from './agent-program.ts'

/** Recognises a process that an agent's tool started: by the agent's variables in its environment, or by the first words of its shell. */

/** The variable that an agent sets in the environment of its tools. */
export interface AgentMark {
  readonly program: AgentProgram
  /** The name of the environment variable, with its value where the value is fixed. */
  readonly by: string
  /** The pid of the agent, for agents that put it into the environment. */
  readonly ownerPid: number | undefined
}

const marks: readonly { readonly program: AgentProgram; readonly pattern: RegExp; readonly owner?: string }[] = [
  { program: 'claude', pattern: /^CLAUDECODE=1$/, owner: 'CLAUDE_PID' },
  { program: 'gemini', pattern: /^GEMINI_CLI=1$/ },
  { program: 'opencode', pattern: /^OPENCODE=1$/, owner: 'OPENCODE_PID' },
  { program: 'codex', pattern: /^(CODEX_CI=1|CODEX_THREAD_ID=.+|CODEX_SANDBOX=.+|CODEX_SANDBOX_NETWORK_DISABLED=1)$/ },
]

export function agentMark(environ: readonly string[]): AgentMark | undefined {
  for (const { program, pattern, owner } of marks) {
    const found = environ.find((entry) => pattern.test(entry))
    if (found === undefined) continue
    const pid = owner === undefined ? Number.NaN : Number(environ.find((entry) => entry.startsWith(`${owner}=`))?.slice(owner.length + 1))
    return { program, by: found.startsWith('CODEX_THREAD_ID') ? 'CODEX_THREAD_ID' : found, ownerPid: pid > 1 ? pid : undefined }
  }
  return undefined
}

/** The tool shells of claude and codex first source a snapshot of the user's shell settings. */
export function sourcesSnapshot(argv: readonly string[]): AgentProgram | undefined {
  if (!isShell(baseName(argv[0] ?? ''))) return undefined
  const text = argv.slice(0, 64).find((word) => /\/shell[-_]snapshots\//.test(word))
  if (text === undefined) return undefined
  return /\/shell-snapshots\/snapshot-/.test(text) ? 'claude' : 'codex'
}
