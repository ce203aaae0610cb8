/** The programs of the installed providers, by name alone: whoever runs another command loads no provider to find that out. */
export const agentPrograms: ReadonlySet<string> = new Set(['claude', 'codex', 'gemini', 'opencode'])
