/** The program names of the installed providers, in a module of their own: commands that need only the names load no provider. */
export const agentPrograms: ReadonlySet<string> = new Set(['claude', 'codex', 'gemini', 'opencode'])
