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
    // Other users see the arguments in `ps`, and these contain a token. Setting the title makes libuv overwrite them.
    if (['token', 'remoteToken', 'ecsToken'].some((key) => args.flags.has(key))) process.title = `ebb ${command.name}`
    const code = await command.run(args, wiring)
    if (!command.leavesInTime) await flushed(process.stdout)
    return code
  } catch (error) {
    const text = `ebb: ${sentence(error)}\n`
    // An error message may quote text of an agent, so control sequences are removed from it on a terminal.
    process.stderr.write(process.stderr.isTTY ? (await import('./terminal/text.ts')).harmless(text) : text)
    return exitCodeOf(error, command)
  }
}

/** Waits until the reader has received all output, or is gone. An exit would drop what did not fit into the pipe. */
async function flushed(stream: NodeJS.WriteStream): Promise<void> {
  if (stream.writableLength > 0) await new Promise<void>((resolve) => stream.write('', () => resolve()))
}

/** `exec` uses the exit codes of a shell and env(1). Every other command exits with 1 for a failure, 2 for wrong usage, 3 for stuck. */
function exitCodeOf(error: unknown, command: CommandDefinition | undefined): number {
  if (!(error instanceof EbbError)) return command?.exitsLikeShell ? 125 : 1
  const { exit } = errorTable[error.code]
  if (command?.exitsLikeShell) return exit === 1 ? 125 : exit
  return exit > 100 ? 1 : exit
}

async function help(name?: string): Promise<number> {
  const { renderHelp } = await import('./help.ts')
  const { plainOutput } = await import('./output.ts')
  const { out, style } = plainOutput()
  out(renderHelp(await allCommands(), name, style.width))
  return 0
}

async function version(manifest: string): Promise<number> {
  const { readFileSync } = await import('node:fs')
  const { version: number } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }
  process.stdout.write(`${number}\n`)
  return 0
}
