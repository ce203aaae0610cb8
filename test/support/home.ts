import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { installationOf } from './ledger-file.ts'
import { currentMark, fileMark, markVariable } from './mark.ts'

/** Fresh homes, and `bin/ebb` as a real child process. The guard removes the homes when their test ends. */

export const root = join(import.meta.dirname, '..', '..')
export const ebbProgram = join(root, 'bin', 'ebb')
export const nodeProgram = join(root, 'node_modules', 'node', 'bin', 'node')

const prefix = 'ebb-test-'
const made = new Map<string, string | undefined>()

/** Creates a new empty folder. `ebb` turns it into a home at its first start. */
export function temporaryHome(): string {
  const directory = mkdtempSync(join(tmpdir(), `${prefix}${currentMark()}`))
  made.set(directory, undefined)
  return directory
}

/** Homes that were created and not removed, each with its last known installation id. */
export function knownHomes(): ReadonlyMap<string, string | undefined> {
  for (const [home, known] of made) made.set(home, installationOf(home) ?? known)
  return made
}

const spoiled = new Set<string>()

/** Marks a home whose database a test makes unreadable. The guard does not read its ledger. */
export function spoil(home: string): string {
  spoiled.add(home)
  return home
}

export function isSpoiled(home: string): boolean {
  return spoiled.has(home)
}

export function removeHomes(homes: Iterable<string>): void {
  for (const home of homes) {
    rmSync(home, { recursive: true, force: true })
    made.delete(home)
  }
}

/** Folders of this test file that still exist, found by name alone. */
export function leftoverFolders(): readonly string[] {
  return readdirSync(tmpdir())
    .filter((name) => name.startsWith(`${prefix}${fileMark}`))
    .map((name) => join(tmpdir(), name))
}

export interface Step {
  readonly step: string
  readonly took: number
}

export interface Report {
  readonly success: boolean
  readonly trigger: string
  readonly duration: number
  readonly resources: readonly {
    readonly kind: string
    readonly name: string
    readonly outcome: string
    readonly steps: readonly Step[]
    readonly proof?: { readonly method: string; readonly strength: string }
    readonly error?: string
  }[]
  readonly errors: readonly string[]
}

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: Buffer
  readonly stderr: string
  readonly pid: number
  /** The report, when the option `report` was given. */
  readonly report: Report | undefined
}

export interface EbbOptions {
  readonly home: string
  /** Variables of the run, in addition to the environment of the test process. */
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly cwd?: string
  /** The whole standard input of the run. Without this option, standard input stays open until `endInput`. */
  readonly input?: string | Buffer
  /** The file for the report, which is read when the run ends. */
  readonly report?: string
  /** After this time the run is killed and the test fails. */
  readonly deadlineMs?: number
  /** A wrapper command, such as strace, in front of `bin/ebb` and its arguments. */
  readonly through?: readonly string[]
  /** The program to run instead of `bin/ebb` of this checkout. */
  readonly program?: string
}

export interface RunningEbb {
  readonly pid: number
  /** The mark in the environment of this run and its descendants, and of no other process. */
  readonly mark: string
  /** Resolves when the process has exited and no process holds its streams. */
  readonly ended: Promise<Ended>
  readonly child: ChildProcess
  /** Settles when standard output holds the text; fails when the run ends without it. */
  says(text: string): Promise<void>
  /** Standard output so far. */
  output(): string
  errorOutput(): string
  endInput(): void
  signal(signal: NodeJS.Signals): void
}

const defaultDeadlineMs = 25_000
let runs = 0

/** Runs `ebb` to its end. */
export async function ebb(words: readonly string[], options: EbbOptions): Promise<Ended> {
  return await startEbb(words, { input: '', ...options }).ended
}

export function startEbb(words: readonly string[], options: EbbOptions): RunningEbb {
  const mark = `${currentMark()}r${++runs}-`
  const env: NodeJS.ProcessEnv = { ...process.env, EBB_HOME: options.home, [markVariable]: mark, ...options.env }
  const own = options.program ?? ebbProgram
  const [program = own, ...first] = [...(options.through ?? []), own]
  const child = spawn(program, [...first, ...withReport(words, options.report)], {
    env,
    ...(options.cwd !== undefined && { cwd: options.cwd }),
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const output = collect(child)
  child.stdin.on('error', () => {}) // EPIPE: the process may end before it reads its input.
  if (options.input !== undefined) child.stdin.end(options.input)
  return {
    pid: child.pid ?? 0,
    mark: env[markVariable] ?? mark,
    child,
    ended: whenEnded(child, output, words, options),
    says: output.says,
    output: () => output.stdout().toString('utf8'),
    errorOutput: output.stderr,
    endInput: () => void child.stdin.end(),
    signal: (signal) => void child.kill(signal),
  }
}

function withReport(words: readonly string[], report: string | undefined): readonly string[] {
  const [command = '', ...rest] = words
  return report === undefined ? words : [command, '--report', report, ...rest]
}

interface Output {
  readonly stdout: () => Buffer
  readonly stderr: () => string
  says(text: string): Promise<void>
}

function collect(child: ChildProcess): Output {
  const out: Buffer[] = []
  const err: Buffer[] = []
  const listeners: (() => void)[] = []
  child.stdout?.on('data', (chunk: Buffer) => {
    out.push(chunk)
    for (const notify of listeners) notify()
  })
  child.stderr?.on('data', (chunk: Buffer) => err.push(chunk))
  const stdout = (): Buffer => Buffer.concat(out)
  const stderr = (): string => Buffer.concat(err).toString('utf8')
  const says = (text: string): Promise<void> =>
    new Promise((resolve, reject) => {
      const check = (): void => {
        if (stdout().includes(text)) resolve()
      }
      listeners.push(check)
      check()
      child.once('close', () => reject(new Error(`ebb ended before it printed "${text}": ${stdout().toString('utf8')}${stderr()}`)))
    })
  return { stdout, stderr, says }
}

/**
 * Resolves on `close`: the process has exited and no process holds its pipes. When a leaked process holds a pipe, the wait ends with a
 * timeout, which makes the leak visible.
 */
function whenEnded(child: ChildProcess, output: Output, words: readonly string[], options: EbbOptions): Promise<Ended> {
  const deadlineMs = options.deadlineMs ?? defaultDeadlineMs
  const ended = new Promise<Ended>((resolve, reject) => {
    const timer = setTimeout(() => {
      child.kill('SIGKILL')
      reject(
        new Error(`ebb ${words.join(' ')} did not end within ${deadlineMs} ms:\n${output.stdout().toString('utf8')}${output.stderr()}`),
      )
    }, deadlineMs)
    child.once('error', reject)
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      const report = options.report !== undefined && existsSync(options.report) ? readReport(options.report) : undefined
      resolve({ code, signal, stdout: output.stdout(), stderr: output.stderr(), pid: child.pid ?? 0, report })
    })
  })
  // Callers that await `ended` still get the error. A test that failed earlier must not fail again with an unhandled rejection.
  ended.catch(() => {})
  return ended
}

function readReport(file: string): Report {
  return JSON.parse(readFileSync(file, 'utf8')) as Report
}
