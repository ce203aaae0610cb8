import type { CommandDefinition } from './command.ts'

/** Every command: its name, and its module. A new command is a file in `commands/` and a line here. */
const modules: Readonly<Record<string, () => Promise<{ readonly definition: CommandDefinition }>>> = {
  exec: () => import('./commands/exec.ts'),
  serve: () => import('./commands/serve.ts'),
  status: () => import('./commands/status.ts'),
  recover: () => import('./commands/recover.ts'),
  reap: () => import('./commands/reap.ts'),
  doctor: () => import('./commands/doctor.ts'),
  run: () => import('./commands/run.ts'),
  ps: () => import('./commands/ps.ts'),
  top: () => import('./commands/top.ts'),
  show: () => import('./commands/show.ts'),
  logs: () => import('./commands/logs.ts'),
  attach: () => import('./commands/attach.ts'),
  stop: () => import('./commands/stop.ts'),
  rm: () => import('./commands/rm.ts'),
  mcp: () => import('./commands/mcp.ts'),
  reset: () => import('./commands/reset.ts'),
  'scripted-model': () => import('./commands/scripted-model.ts'),
  archive: () => import('./commands/archive.ts'),
  completion: () => import('./commands/completion.ts'),
}

/** Commands for programs, which the help and the completion do not list. */
const hidden: typeof modules = { __complete: () => import('./commands/complete.ts') }

export async function findCommand(name: string): Promise<CommandDefinition | undefined> {
  const load = Object.hasOwn(modules, name) ? modules[name] : Object.hasOwn(hidden, name) ? hidden[name] : undefined
  return (await load?.())?.definition
}

/** Loads all commands, for the help and the completion. Running a command loads only that one. */
export async function allCommands(): Promise<readonly CommandDefinition[]> {
  return await Promise.all(Object.values(modules).map(async (load) => (await load()).definition))
}
