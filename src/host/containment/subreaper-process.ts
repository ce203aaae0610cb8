import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import { flushCompileCache } from 'node:module'
import { Socket } from 'node:net'
import { constants, setPriority } from 'node:os'
import { sentence } from '../../core/model/errors.ts'
import type { Exit } from '../../core/ports/effects.ts'
import { type Kernel, openKernel } from '../ffi.ts'
import { findDescendants } from '../processes/descendants.ts'
import { type News, type Order, type StartOrder, splitLines } from './subreaper-messages.ts'

/**
 * The subreaper process: it runs between a supervisor and one command. Every orphan among its descendants becomes its child. So when
 * waitpid(2) fails with ECHILD, the kernel proves that no descendant is left. It also replaces the sentinel for its tree: when the channel
 * closes, the supervisor is dead or has finished with the tree, and it kills what is left.
 */

const channelFd = Number(process.argv[2])

/** On a terminal this process is in the command's foreground group, so Ctrl-C and Ctrl-Z reach it too. They must not end or stop it. */
const ignoredSignals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGALRM', 'SIGTSTP', 'SIGTTIN', 'SIGTTOU', 'SIGUSR1', 'SIGUSR2'] as const

/** The pause between two passes while killed processes are still exiting. */
const firstPauseMs = 1
const longestPauseMs = 20
/** How long passes against a chain of forks follow each other without a turn of the event loop. */
const burstMs = 50
/** After this many rounds that each found new processes, the stopped ones are killed before the search continues. */
const stopRounds = 10

class SubreaperProcess {
  readonly #kernel: Kernel
  #main: ChildProcess | undefined
  #exit: Exit | undefined
  #isExitReported = false
  #isKilling = false
  #isGone = false
  #isOrphan = false

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  start(order: StartOrder): void {
    const { program, argv, env, cwd, detached } = order
    const stdio = Array.from({ length: Math.max(2, ...order.descriptors) + 1 }, (_, fd) => (isHeld(order, fd) ? fd : 'ignore'))
    // libuv resets all signal dispositions in the child, so the command does not ignore the signals that this process ignores.
    this.#main = spawn(program, argv.slice(1), { argv0: argv[0], env, cwd, detached, stdio })
    this.#main.once('error', (error) => this.#fail(error))
    this.#main.once('exit', (code, signal) => this.#mainEnded({ code, signal }))
    if (this.#main.pid === undefined) return
    this.#send({ is: 'started', pid: this.#main.pid })
    process.on('SIGCHLD', () => this.#reap())
    this.#reap()
  }

  obey(order: Order): void {
    if (order.do === 'kill') this.#kill()
    if (order.do === 'signal') {
      using all = findDescendants(this.#kernel)
      for (const signal of order.signals) all.signal(signal)
    }
  }

  /** The supervisor has closed the channel: it has the report that the tree is gone, or it is dead. */
  orphaned(): void {
    this.#isOrphan = true
    if (this.#isGone) this.#kernel.exit(0)
    this.#kill()
  }

  #fail(error: unknown): void {
    this.#send({ is: 'failed', error: sentence(error) })
    this.#kernel.exit(1)
  }

  /** After the channel has closed nothing is sent: no one reads it, and its descriptor may have been reused. */
  #send(...news: readonly News[]): void {
    if (!this.#isOrphan) send(news)
  }

  /** libuv and `#reap` both wait for the command; the first to see its exit counts. */
  #mainEnded(exit: Exit): void {
    this.#exit ??= exit
    this.#reap()
  }

  #reap(): void {
    let dead = this.#kernel.reap()
    for (; typeof dead === 'object'; dead = this.#kernel.reap()) {
      if (dead.pid === this.#main?.pid) this.#exit ??= { code: dead.code, signal: dead.signal }
    }
    this.#report(dead === 'none')
  }

  /**
   * Reports the exit of the command and the end of the tree, in one write where both are known. So a supervisor that closes the tree after
   * the exit already has the proof.
   */
  #report(isEmpty: boolean): void {
    const news: News[] = []
    if (this.#exit && !this.#isExitReported) news.push({ is: 'exit', ...this.#exit })
    // While the exit is unknown, libuv may have reaped the command and not yet emitted its event.
    if (isEmpty && this.#exit && !this.#isGone) news.push({ is: 'gone' })
    this.#isExitReported ||= this.#exit !== undefined
    this.#isGone ||= isEmpty && this.#exit !== undefined
    if (news.length > 0) this.#send(...news)
    if (this.#isGone && this.#isOrphan) this.#kernel.exit(0)
  }

  #kill(): void {
    if (this.#isKilling) return
    this.#isKilling = true
    this.#send({ is: 'killing' })
    raisePriority()
    this.#killUntilGone(firstPauseMs)
  }

  #killUntilGone(pauseMs: number): void {
    const untilMs = performance.now() + burstMs
    const seen = new Set<number>()
    let hasFoundNew = true
    while (hasFoundNew && !this.#isGone && performance.now() < untilMs) hasFoundNew = this.#killPass(seen)
    if (this.#isGone) return
    // When a pass finds no new processes, only killed ones are left, and they are exiting.
    setTimeout(() => this.#killUntilGone(Math.min(longestPauseMs, pauseMs * 2)), hasFoundNew ? 0 : pauseMs)
  }

  /** Stops all descendants, so that none forks, until a round finds no new one. Then kills them. Returns whether it found new ones. */
  #killPass(seen: Set<number>): boolean {
    for (let rounds = 0; ; rounds++) {
      // Reap first: a chain of forks leaves thousands of dead children, and the walk would visit each of them.
      this.#reap()
      using all = findDescendants(this.#kernel, 'SIGSTOP')
      const newPids = all.pids.filter((pid) => !seen.has(pid))
      for (const pid of newPids) seen.add(pid)
      if (newPids.length > 0 && rounds < stopRounds) continue
      all.signal('SIGKILL')
      this.#reap()
      return rounds > 0
    }
  }
}

function isHeld({ descriptors }: StartOrder, fd: number): boolean {
  return fd < 3 || descriptors.includes(fd)
}

/** Without a higher priority, a thousand busy processes leave this one a thousandth of the processor time. */
function raisePriority(): void {
  try {
    setPriority(constants.priority.PRIORITY_HIGHEST)
  } catch {
    // Only root may raise the priority. For other users the limit on their number of processes bounds the load.
  }
}

/** Writes messages to the channel synchronously, because the last messages must be written before the exit. */
function send(news: readonly News[]): void {
  try {
    writeSync(channelFd, news.map((message) => `${JSON.stringify(message)}\n`).join(''))
  } catch {
    // EPIPE: the supervisor is dead. The end of the channel reports that.
  }
}

/**
 * Closes the command's streams in this process: a pipe must end with the command, and this process must not hold the command's terminal.
 */
function releaseStreams(descriptors: readonly number[]): void {
  for (const fd of descriptors) closeSync(fd)
  for (const fd of [0, 1, 2]) {
    closeSync(fd)
    openSync('/dev/null', 'r+') // open(2) returns the lowest free descriptor, which is the one that was just closed.
  }
}

/** Reads the first order synchronously: before there is a command, there is nothing else to do. */
function awaitFirstOrder(orders: readonly Order[], take: (chunk: Buffer) => void): void {
  const chunk = Buffer.alloc(64 * 1024)
  while (orders.length === 0) {
    const count = readSync(channelFd, chunk)
    if (count === 0) return
    take(chunk.subarray(0, count))
  }
}

function run(): void {
  // This process gets a title of its own, so that a `pkill node` that is meant for an agent does not match it.
  process.title = 'ebb-keeper'
  for (const signal of ignoredSignals) process.on(signal, () => {})
  const orders: Order[] = []
  let obey = (order: Order): void => void orders.push(order)
  const take = splitLines((line) => obey(JSON.parse(line) as Order))
  awaitFirstOrder(orders, take)
  const [first, ...others] = orders
  if (first?.do !== 'start') return

  const kernel = openKernel()
  kernel.adoptOrphans()
  kernel.closeOnExec(channelFd)
  const subreaperProcess = new SubreaperProcess(kernel)
  subreaperProcess.start(first)
  releaseStreams(first.descriptors)
  obey = (order) => subreaperProcess.obey(order)
  for (const order of others) obey(order)
  const channel = new Socket({ fd: channelFd, readable: true, writable: false })
  channel.on('data', take)
  channel.on('error', () => {})
  channel.once('close', () => subreaperProcess.orphaned())
  // Stores the compiled code for the next subreaper process now, because this one ends by _exit(2).
  flushCompileCache()
}

try {
  run()
} catch (error) {
  send([{ is: 'failed', error: sentence(error) }])
  process.exit(1)
}
