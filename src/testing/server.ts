import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { within } from './race.ts'

export interface ServerOptions {
  /** More arguments for `ebb serve`, such as `['--max-agents', '5']`. */
  readonly args?: readonly string[]
  /** Variables that are added to the environment of the server, and so of its agents. */
  readonly env?: Readonly<Record<string, string>>
}

export interface ThrowAwayServer extends AsyncDisposable {
  readonly url: string
  /** The home folder of this server. It is removed when the server stops. */
  readonly home: string
  readonly token?: string
  readonly pid: number
  /**
   * Closes everything, verifies that, and removes the home. Throws when something is left; the error then names the home, which is
   * kept.
   */
  stop(): Promise<void>
}

/**
 * The server runs while its standard input is open, so it ends with the test process, even when that is killed. The shell then
 * removes the home, and only after a clean end.
 */
const script = 'home=$1; shift; "$@"; code=$?; [ "$code" = 0 ] && rm -rf -- "$home"; exit "$code"'

/** Variables that would make the new server use the user's own store, address or token. */
const userSettings = ['EBB_CONFIG', 'EBB_STORE', 'EBB_HOST', 'EBB_TOKEN', 'EBB_KEEP_ON_EXIT', 'EBB_URL']

const logName = 'server.log'

const startMs = 30_000

/** `ebb serve` closes within 8 s. After this time it is killed, and its sentinel finishes the close. */
const stopMs = 20_000

/** Starts a server on a free port, with the test endpoints and a temporary home. Use it with `await using`. */
export async function startServer({ args = [], env = {} }: ServerOptions = {}): Promise<ThrowAwayServer> {
  const home = mkdtempSync(join(tmpdir(), 'ebb-testing-'))
  const child = spawnServer(home, args, env)
  const exit = new Promise<number | string>((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('close', (code, signal) => resolve(code ?? signal ?? 'unknown'))
  })
  const announced = await within<number | string>(startMs, Promise.race([firstLine(child), exit]), () => `no answer within ${startMs} ms`)
  if (typeof announced !== 'string' || !announced.startsWith('{')) throw await notStarted(child, announced, exit, home)
  const { url, pid } = JSON.parse(announced) as { url: string; pid: number }
  hold(child, false)
  const { token } = JSON.parse(readFileSync(join(home, 'server.json'), 'utf8')) as { token?: string }
  let stopping: Promise<void> | undefined
  const stop = (): Promise<void> => {
    stopping ??= end(child, exit, home)
    return stopping
  }
  return { url, pid, home, ...(token !== undefined && { token }), stop, [Symbol.asyncDispose]: stop }
}

function spawnServer(home: string, args: readonly string[], env: Readonly<Record<string, string>>): ChildProcess {
  const words = ['serve', '--port', '0', '--test-endpoints', '--json', '--while-stdin', ...args]
  const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => !userSettings.includes(name)))
  // The errors of the server go to a file, not to a pipe. After the test process has died, a write to a pipe without a reader would end the
  // server.
  const errors = openSync(join(home, logName), 'a', 0o600)
  try {
    return spawn('/bin/sh', ['-c', script, 'ebb-throw-away', home, ebbProgram(), ...words], {
      env: { ...inherited, ...env, EBB_HOME: home },
      stdio: ['pipe', 'pipe', errors],
      // The server is in a session of its own. So Ctrl-C ends only the test process, which then stops the server.
      detached: true,
    })
  } finally {
    closeSync(errors)
  }
}

function firstLine({ stdout }: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    stdout?.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
      const line = text.indexOf('\n')
      if (line >= 0) resolve(text.slice(0, line))
    })
  })
}

/** Sets whether the server keeps the test process alive. A server that does not, and that was not stopped, ends with the test process. */
function hold(child: ChildProcess, isHeld: boolean): void {
  for (const one of [child, child.stdin as Socket | null, child.stdout as Socket | null]) {
    if (isHeld) one?.ref()
    else one?.unref()
  }
}

/**
 * The error for a server that did not start, with the server's own error output. The home is removed, because nothing was launched in it.
 */
async function notStarted(child: ChildProcess, why: number | string, exit: Promise<number | string>, home: string): Promise<Error> {
  const said = logIn(home)
  const code = await endInput(child, exit)
  if (typeof code === 'number') rmSync(home, { recursive: true, force: true })
  return new Error(
    `The throw-away server did not start (${why})${said}${typeof code === 'number' ? '' : `; its home is kept for inspection: ${home}`}`,
  )
}

async function end(child: ChildProcess, exit: Promise<number | string>, home: string): Promise<void> {
  hold(child, true)
  const code = await endInput(child, exit)
  if (code === 0) return
  throw new Error(`The throw-away server did not end cleanly (${code}); its home is kept for inspection: ${home}${logIn(home)}`)
}

function endInput(child: ChildProcess, exit: Promise<number | string>): Promise<number | string> {
  child.stdin?.end()
  return within<number | string>(stopMs, exit, () => {
    // Kills the process group of the shell and the server. The sentinel is in a session of its own, and finishes the close.
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    return `not within ${stopMs} ms`
  })
}

function logIn(home: string): string {
  const log = join(home, logName)
  const text = existsSync(log) ? readFileSync(log, 'utf8').trim() : ''
  return text === '' ? '' : `: ${text}`
}

/**
 * The path of `bin/ebb` in the package of this file. `import.meta` cannot be used: in a project without ES modules Playwright
 * compiles this file to CommonJS, where that is a syntax error. A V8 call site has the file name with every loader.
 */
function ebbProgram(): string {
  return join(dirname(thisFile()), '..', '..', 'bin', 'ebb')
}

function thisFile(): string {
  const { prepareStackTrace } = Error
  try {
    Error.prepareStackTrace = (_error, sites) => sites[0]?.getFileName()
    const [file = ''] = String(new Error('here').stack).split('?')
    return file.startsWith('file:') ? fileURLToPath(file) : file
  } finally {
    Error.prepareStackTrace = prepareStackTrace
  }
}
