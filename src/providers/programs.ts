/**
 * The program names of the installed providers, in a module of their own: `ebb exec` needs only the names, and loading all providers would
 * delay its start by about 10 ms.
 */
export const agentPrograms: ReadonlySet<string> = new Set(['claude', 'codex', 'gemini', 'opencode'])
