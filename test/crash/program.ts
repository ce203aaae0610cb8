import { execFile, spawn } from 'node:child_process'
import { closeSync, copyFileSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { nodeProgram, root } from '../support/home.ts'
import type { Job, Moment, Said } from './job.ts'

/** The driver as a bundled program. A thousand starts from source would take most of the suite's time. */
export interface Program extends Disposable {
  readonly driver: string
  readonly compileCache: string
}

/**
 * Builds the driver with the layout of an installation, so that its sentinel and subreaper programs are found. The build is inside the
 * repository, so that the package koffi is found.
 */
export async function buildDriver(): Promise<Program> {
  const cache = join(root, 'node_modules', '.cache')
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(cache, 'ebb-crash-'))
  mkdirSync(join(folder, 'bin'))
  copyFileSync(join(root, 'bin', 'start.cjs'), join(folder, 'bin', 'start.cjs'))
  // The bundler runs in a separate process: it needs 400 MB, and every fork of a process of that size costs 10 ms.
  await promisify(execFile)(nodeProgram, [join(import.meta.dirname, 'build-driver.ts'), folder])
  return {
    driver: join(folder, 'dist', 'driver.cjs'),
    compileCache: join(folder, 'cache'),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  }
}

export interface DriverEnd {
  readonly isKilled: boolean
  readonly isReady: boolean
  /** The number of effects until the launch was complete. */
  readonly effectsToReady: Readonly<Record<Moment, number>> | undefined
  /** The effect at which the driver was killed. */
  readonly effect: string | undefined
  readonly done: Extract<Said, { is: 'done' }> | undefined
}

const driverDeadlineMs = 30_000
let runs = 0

/**
 * Runs the driver with its output in files. Processes that the driver started would hold a pipe open, and a pipe may be incomplete at the
 * exit.
 */
export function runDriver(program: Program, job: Job): Promise<DriverEnd> {
  runs += 1
  const files = ['out', 'err'].map((stream) => join(job.home, `driver-${runs}.${stream}`))
  const descriptors = files.map((file) => openSync(file, 'w', 0o600))
  const child = spawn(nodeProgram, ['--disable-warning=ExperimentalWarning', program.driver, JSON.stringify(job)], {
    // EBB_HOME marks a child between fork and exec too.
    env: { ...process.env, EBB_HOME: job.home, TMPDIR: job.temp, NODE_COMPILE_CACHE: program.compileCache },
    stdio: ['ignore', ...descriptors],
  })
  for (const descriptor of descriptors) closeSync(descriptor)
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => child.kill('SIGUSR1'), driverDeadlineMs)
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      clearTimeout(timer)
      const [stdout = '', stderr = ''] = files.map((file) => readFileSync(file, 'utf8'))
      const isKilled = signal === 'SIGKILL'
      if (isKilled || code === 0) resolve(endOf(isKilled, parse(stdout)))
      else reject(new Error(`The driver failed (${code ?? signal}): ${JSON.stringify(job)}\n${stdout}${stderr}`))
    })
  })
}

function endOf(isKilled: boolean, lines: readonly Said[]): DriverEnd {
  const find = <K extends Said['is']>(is: K): Extract<Said, { is: K }> | undefined =>
    lines.find((line): line is Extract<Said, { is: K }> => line.is === is)
  const ready = find('ready')
  return { isKilled, isReady: ready !== undefined, effectsToReady: ready?.effects, effect: find('crash')?.effect, done: find('done') }
}

/** Parses the driver's output. Other lines are ignored: the command of the `complete` scenario writes to the same stream. */
function parse(stdout: string): readonly Said[] {
  return stdout
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Said)
}
