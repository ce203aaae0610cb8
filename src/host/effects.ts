import { spawn as nodeSpawn } from 'node:child_process'
import * as fs from 'node:fs'
import type { Duplex } from 'node:stream'
import type { Child, Command, Effects, Exit } from '../core/ports/effects.ts'
import { nextTurn } from '../core/ports/turn.ts'
import { type Kernel, openKernel } from './ffi.ts'
import { findMkfifo } from './mkfifo.ts'
import { refused } from './path.ts'
import { removeFolder } from './remove-folder.ts'
import { compress, copy, discard, flush } from './slow-effects.ts'

const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW, O_RDONLY, O_RDWR, O_APPEND, O_NONBLOCK } = fs.constants

/** The value of open(2)'s O_TMPFILE, which Node does not export. */
const O_TMPFILE = 0o20200000

/** System calls on pidfds, loaded with the first signal to a pidfd. Only the doctor sends such signals. */
let kernel: Kernel | undefined

/** Effects on the real system. Calls on kernel files are synchronous: they take microseconds and must work in an exit handler. */
export const realEffects: Effects = {
  makeDirectory: (path, mode = 0o700) => fs.mkdirSync(path, { mode }),
  removeDirectory: (path) => fs.rmdirSync(path),
  write: (path, text) => withFile(path, O_WRONLY, undefined, (fd) => void fs.writeSync(fd, text)),
  writeBeside,
  changeMode: (path, mode) => fs.chmodSync(path, mode),
  createFile: (path, content, mode) =>
    withFile(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode, (fd) => {
      fs.writeFileSync(fd, content)
      fs.fsyncSync(fd)
      return fs.fstatSync(fd)
    }),
  link: (from, to) => fs.linkSync(from, to),
  rename: (from, to) => fs.renameSync(from, to),
  unlink: (path) => fs.unlinkSync(path),
  removeTree: (path) => fs.rmSync(path, { recursive: true, force: true }),
  sync: (path) => withFile(path, O_RDONLY, undefined, (fd) => fs.fsyncSync(fd)),
  flush,
  append,
  copy,
  compress,
  discard,
  removeFolder,
  point: (path, to) => fs.symlinkSync(to, path),
  makePipe,
  openFile: (path, flags, mode) => fs.openSync(path, flags, mode),
  closeFile: (fd) => fs.closeSync(fd),
  openText: (directory, text) =>
    withFile(directory, O_TMPFILE | O_RDWR, 0o600, (fd) => {
      fs.writeFileSync(fd, text)
      // The unnamed file is opened a second time, to read from the start and without the right to write.
      return fs.openSync(`/proc/self/fd/${fd}`, O_RDONLY)
    }),
  spawn,
  signal: (pid, signal) => {
    process.kill(pid, signal)
  },
  signalPinned: (pidfd, signal) => {
    kernel ??= openKernel()
    return kernel.signalPidfd(pidfd, signal)
  },
}

function withFile<T>(path: string, flags: number, mode: number | undefined, use: (fd: number) => T): T {
  const fd = fs.openSync(path, flags, mode)
  try {
    return use(fd)
  } finally {
    fs.closeSync(fd)
  }
}

/** Writes in the thread pool. Callbacks are used, because loading `fs.promises` takes 4 ms, and every start of Ebb writes like this. */
function writeBeside(path: string, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const fd = fs.openSync(path, O_WRONLY | O_NOFOLLOW)
    fs.write(fd, text, (error) => fs.close(fd, () => (error ? reject(error) : resolve())))
  })
}

/**
 * Appends text to a file. O_NONBLOCK is set, because opening a pipe at this path would block. A file with a second hard link may belong to
 * another program, so it is refused.
 */
function append(path: string, text: string | Uint8Array, mode: number): void {
  withFile(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, mode, (fd) => {
    const stat = fs.fstatSync(fd)
    if (!stat.isFile() || stat.nlink > 1) throw refused(path, 'it is not a regular file with a single name')
    try {
      fs.writeFileSync(fd, text)
    } catch (error) {
      // When an append fails, the part that was written is cut off. Otherwise the next line would be appended to half a line.
      fs.ftruncateSync(fd, stat.size)
      throw error
    }
  })
}

let turn: Promise<void> = Promise.resolve()

/**
 * Starts at most one process per turn of the event loop. Node starts a process synchronously, which takes milliseconds, and two
 * hundred launches at once would block everything else.
 */
async function spawn(command: Command): Promise<Child> {
  const mine = turn
  turn = mine.then(nextTurn)
  await mine
  return await spawnNow(command)
}

function spawnNow(command: Command): Promise<Child> {
  return new Promise((resolve, reject) => {
    const child = nodeSpawn(command.program, command.argv.slice(1), {
      argv0: command.argv[0],
      env: command.env,
      cwd: command.cwd,
      stdio: [...command.stdio],
      detached: command.detached ?? false,
      ...(command.uid !== undefined && { uid: command.uid }),
    })
    // The error handler is attached first: without a free descriptor Node returns a child without streams, and emits the error later.
    child.once('error', reject)
    // The exit of a child is taken from the event `exit` and not from `close`. The event `close` waits for every process that holds the
    // pipes, and a daemon may hold them forever.
    const exit = new Promise<Exit>((settle) => child.once('exit', (code, signal) => settle({ code, signal })))
    // The process may be gone before the write to its standard input. Its exit reports that, so the error of the stream is ignored.
    child.stdin?.on('error', () => {})
    child.once('spawn', () => {
      const channel = command.stdio.length > 3 ? (child.stdio.at(-1) as Duplex | null) : undefined
      resolve({
        pid: child.pid ?? 0,
        exit,
        stdin: child.stdin ?? undefined,
        ...(channel && { channel }),
        firstLine: () => firstLine(child.stdout, child.stderr),
        unref: () => {
          child.unref()
          for (const stream of [child.stdin, child.stdout, channel]) if (stream && 'unref' in stream) (stream as { unref(): void }).unref()
        },
      })
    })
  })
}

/** Uses mkfifo(3) where koffi is installed, else the program mkfifo(1). */
async function makePipe(path: string): Promise<void> {
  const mkfifo = findMkfifo()
  if (mkfifo) {
    mkfifo(path)
    return
  }
  const child = await spawn({
    program: 'mkfifo',
    argv: ['mkfifo', '-m', '600', '--', path],
    env: { PATH: '/usr/bin:/bin' },
    stdio: ['ignore', 'ignore', 'ignore'],
  })
  const { code } = await child.exit
  if (code !== 0) throw new Error(`The pipe ${path} could not be made (mkfifo exited with code ${code}).`)
}

/** The first line on any of a child's streams. A program that fails may write its error to the other stream. */
function firstLine(...streams: readonly (NodeJS.ReadableStream | null)[]): Promise<string | undefined> {
  return new Promise((resolve) => {
    const open = new Set(streams.filter((stream) => stream !== null))
    for (const stream of open) {
      let text = ''
      stream.on('data', (chunk: Buffer) => {
        text += chunk.toString('utf8')
        if (text.includes('\n')) resolve(text.slice(0, text.indexOf('\n')))
      })
      stream.on('end', () => {
        open.delete(stream)
        if (open.size === 0) resolve(undefined)
      })
    }
    if (open.size === 0) resolve(undefined)
  })
}
