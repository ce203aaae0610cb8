import { EbbError, errorTable, sentence } from '../core/model/errors.ts'
import { parseArguments } from './arguments.ts'
import type { CommandDefinition, Wiring } from './command.ts'
import { allCommands, findCommand } from './registry.ts'

export async function runCommandLine(words: readonly string[], wiring: Wiring): Promise<number> {
  let command: CommandDefinition | undefined
  try {
    const [name = 'help', ...rest] = words
    if (name === 'help' || name === '--help' || name === '-h') return await help(rest[0])
    if (name === '--version' || name === 'version') return await version(wiring.manifest)
    command = await findCommand(name)
    if (!command) throw new EbbError('bad_usage', `There is no command "${name}"; "ebb help" lists them.`)
    const args = parseArguments(command, rest)
    if (args.switches.has('help')) return await help(command.name)
    // Everybody sees arguments in `ps`; libuv writes the title over them.
    if (['token', 'remoteToken', 'ecsToken'].some((key) => args.flags.has(key))) process.title = `ebb ${command.name}`
    const code = await command.run(args, wiring)
    if (!command.leavesInTime) await taken(process.stdout)
    return code
  } catch (error) {
    const text = `ebb: ${sentence(error)}\n`
    // It may quote what somebody else wrote.
    process.stderr.write(process.stderr.isTTY ? (await import('./terminal/text.ts')).harmless(text) : text)
    return exitCodeOf(error, command)
  }
}

/** All of it was taken, or nobody will: an exit would throw away what a slow reader's pipe had no room for. */
async function taken(stream: NodeJS.WriteStream): Promise<void> {
  if (stream.writableLength > 0) await new Promise<void>((resolve) => stream.write('', () => resolve()))
}

/** `exec` speaks as a shell and `env` do; every other command says 1 for a failure, 2 for wrong usage, 3 for stuck. */
function exitCodeOf(error: unknown, command: CommandDefinition | undefined): number {
  if (!(error instanceof EbbError)) return command?.exitsLikeShell ? 125 : 1
  const { exit } = errorTable[error.code]
  if (command?.exitsLikeShell) return exit === 1 ? 125 : exit
  return exit > 100 ? 1 : exit
}

async function help(name?: string): Promise<number> {
  const { renderHelp } = await import('./help.ts')
  const { plainOutput } = await import('./output.ts')
  const { out, face } = plainOutput()
  out(renderHelp(await allCommands(), name, face.width))
  return 0
}

async function version(manifest: string): Promise<number> {
  const { readFileSync } = await import('node:fs')
  const { version: number } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }
  process.stdout.write(`${number}\n`)
  return 0
}
