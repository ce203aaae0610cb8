import { accessSync, constants, readFileSync, statSync } from 'node:fs'
import { delimiter, isAbsolute, join, resolve } from 'node:path'
import { EbbError, errno } from '../core/model/errors.ts'

/**
 * Checks, before the intent is written, that the program can start. After the launch, exit code 127 could come from the trampoline or from
 * the command.
 */
export function requireProgram(argv: readonly string[], env: Readonly<Record<string, string>>, cwd: string): void {
  const [program] = argv
  if (program === undefined) throw new EbbError('launch_refused', 'There is no command to run; name one.')
  if (argv.some((argument) => argument.includes('\0')))
    throw new EbbError('launch_refused', 'An argument of the command contains a NUL character, which no program can receive; remove it.')
  requireSize(argv, env)
  requireFolder(cwd)
  // execvp(3) finds no program for an empty name. An empty name that is joined with a folder of the PATH would name that folder.
  const files = program === '' ? [] : candidates(program, env, cwd).filter(exists)
  if (files.length === 0)
    throw new EbbError(
      'program_not_found',
      `${program || '""'} was not found${program.includes('/') ? '' : ' on the PATH'}; check its name and that it is installed.`,
    )
  if (!files.some(isExecutable))
    throw new EbbError(
      'program_not_executable',
      `${files[0] ?? program} exists but cannot be executed; check that it is a program and that its mode allows it.`,
    )
}

/** The number of bytes that are reserved for the trampoline: the shell script, the gates and a few variables. */
const trampolineBytes = 16_384

/** execve(2) limits the total size of arguments and environment. Each string counts with its NUL and its pointer. */
function requireSize(argv: readonly string[], env: Readonly<Record<string, string>>): void {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  // The trampoline passes variables that are no shell names a second time, as arguments of env(1).
  const twice = variables.filter((variable) => !/^[A-Za-z_][A-Za-z0-9_]*=/.test(variable))
  const bytes = [...argv, ...variables, ...twice].reduce((sum, text) => sum + Buffer.byteLength(text) + 9, trampolineBytes)
  const maxBytes = maxArgumentBytes()
  if (bytes > maxBytes)
    throw new EbbError(
      'launch_refused',
      `The arguments of the command and its environment take ${bytes} bytes together, and a program can receive at most ${maxBytes}; put some into a file.`,
    )
}

/** execve(2) allows a quarter of the stack limit, within bounds. Without /proc the ARG_MAX of macOS is used. */
function maxArgumentBytes(): number {
  try {
    const [, stack = '4194304'] = /^Max stack size +(\d+|unlimited)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    const quarter = stack === 'unlimited' ? Number.POSITIVE_INFINITY : Number(stack) / 4
    return Math.max(131_072, Math.min(quarter, 6 * 1_048_576))
  } catch {
    return 1_048_576
  }
}

function requireFolder(path: string): void {
  let isFolder = false
  try {
    isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
  } catch (error) {
    throw new EbbError('launch_refused', `The working directory ${path} cannot be entered (${errno(error)}); give another one.`, {
      cause: error,
    })
  }
  if (!isFolder) throw new EbbError('launch_refused', `The working directory ${path} does not exist or is not a directory.`)
}

/** The path of a program, as execvp(3) would find it; undefined when it cannot be started. */
export function findProgram(program: string, env: Readonly<Record<string, string>>, cwd = '/'): string | undefined {
  return candidates(program, env, cwd).find((path) => exists(path) && isExecutable(path))
}

function candidates(program: string, env: Readonly<Record<string, string>>, cwd: string): readonly string[] {
  if (program.includes('/')) return [isAbsolute(program) ? program : resolve(cwd, program)]
  return (env.PATH ?? '/usr/bin:/bin').split(delimiter).map((folder) => join(folder === '' ? cwd : resolve(cwd, folder), program))
}

/** Like execvp(3), treats a folder of the PATH that may not be entered as empty. */
function exists(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) !== undefined
  } catch {
    return false
  }
}

export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}
