import { accessSync, constants, readFileSync, statSync } from 'node:fs'
import { delimiter, isAbsolute, join, resolve } from 'node:path'
import { EbbError, errno } from '../core/model/errors.ts'

/** Whether a program can start is asked before the intent: 127 from the trampoline and from the command look the same. */
export function requireProgram(argv: readonly string[], env: Readonly<Record<string, string>>, cwd: string): void {
  const [program] = argv
  if (program === undefined) throw new EbbError('launch_refused', 'There is no command to run; name one.')
  if (argv.some((argument) => argument.includes('\0')))
    throw new EbbError('launch_refused', 'An argument of the command holds a NUL character, which no program can be given.')
  requireRoom(argv, env)
  requireFolder(cwd)
  // An empty name is found nowhere, though it would lead to the folders of the PATH themselves.
  const files = program === '' ? [] : candidates(program, env, cwd).filter(isThere)
  if (files.length === 0)
    throw new EbbError(
      'program_not_found',
      `${program || '""'} was not found${program.includes('/') ? '' : ' on the PATH'}; check its name and that it is installed.`,
    )
  if (!files.some(isExecutable))
    throw new EbbError(
      'program_not_executable',
      `${files[0] ?? program} is there but cannot be executed; check that it is a program and that its mode allows it.`,
    )
}

/** For what comes between us and the command: a shell with its lines, doors, and a few variables. */
const ownBytes = 16_384

/** execve(2) takes so much of arguments and environment together, each with its NUL and its pointer. */
function requireRoom(argv: readonly string[], env: Readonly<Record<string, string>>): void {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  // Those that a shell cannot speak are arguments too, on their way through it.
  const twice = variables.filter((one) => !/^[A-Za-z_][A-Za-z0-9_]*=/.test(one))
  const bytes = [...argv, ...variables, ...twice].reduce((sum, one) => sum + Buffer.byteLength(one) + 9, ownBytes)
  const most = mostTogether()
  if (bytes > most)
    throw new EbbError(
      'launch_refused',
      `The arguments of the command and its environment take ${bytes} bytes together, and no program can be given more than ${most}; put some into a file.`,
    )
}

/** A quarter of the stack, within bounds; where /proc does not say how large that is, ARG_MAX of macOS. */
function mostTogether(): number {
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

/** Where a program is, as execvp(3) would find it; undefined when it cannot be started. */
export function findProgram(program: string, env: Readonly<Record<string, string>>, cwd = '/'): string | undefined {
  return candidates(program, env, cwd).find((path) => isThere(path) && isExecutable(path))
}

function candidates(program: string, env: Readonly<Record<string, string>>, cwd: string): readonly string[] {
  if (program.includes('/')) return [isAbsolute(program) ? program : resolve(cwd, program)]
  return (env.PATH ?? '/usr/bin:/bin').split(delimiter).map((folder) => join(folder === '' ? cwd : resolve(cwd, folder), program))
}

/** A folder of the PATH that we may not enter holds nothing for us, as for execvp(3). */
function isThere(path: string): boolean {
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
