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
 * The process between a supervisor and one command, and the subreaper of everything below it: whoever is orphaned there
 * becomes its child, so when waitpid(2) says ECHILD the kernel vouches that nothing is left. It is the sentinel of its
 * tree too: when the channel ends, the supervisor is dead or done with it, and the tree goes.
 */

const channelFd = Number(process.argv[2])

/** On a terminal the command's foreground group is ours too: its Ctrl-C and Ctrl-Z must not end or stop the keeper. */
const ignoredSignals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGALRM', 'SIGTSTP', 'SIGTTIN', 'SIGTTOU', 'SIGUSR1', 'SIGUSR2'] as const

/** Between two passes over processes that were killed already and have yet to go. */
const firstPauseMs = 1
const longestPauseMs = 20
/** A chain of forks is hunted without a pause for this long; then the event loop has its turn. */
const burstMs = 50
/** After so many rounds that each met somebody new, those that are stopped die first. */
const stopRounds = 10

class SubreaperProcess {
  readonly #kernel: Kernel
  #main: ChildProcess | undefined
  #exit: Exit | undefined
  #isExitTold = false
  #isKilling = false
  #isGone = false
  #isOrphan = false

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  start(order: StartOrder): void {
    const { program, argv, env, cwd, detached } = order
    const stdio = Array.from({ length: Math.max(2, ...order.descriptors) + 1 }, (_, fd) => (isHeld(order, fd) ? fd : 'ignore'))
    // libuv resets every signal's disposition in the child, so the command does not inherit what is ignored here.
    this.#main = spawn(program, argv.slice(1), { argv0: argv[0], env, cwd, detached, stdio })
    this.#main.once('error', (error) => this.#fail(error))
    this.#main.once('exit', (code, signal) => this.#mainEnded({ code, signal }))
    if (this.#main.pid === undefined) return
    this.#tell({ is: 'started', pid: this.#main.pid })
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

  /** The supervisor has closed the channel: it knows that all is gone, or it is dead. */
  orphaned(): void {
    this.#isOrphan = true
    if (this.#isGone) this.#kernel.exit(0)
    this.#kill()
  }

  #fail(error: unknown): void {
    this.#tell({ is: 'failed', error: sentence(error) })
    this.#kernel.exit(1)
  }

  /** Nobody hears an orphan, and the channel's descriptor may be something else's by now. */
  #tell(...news: readonly News[]): void {
    if (!this.#isOrphan) tell(news)
  }

  /** Both libuv and we wait for the command; whoever is first tells. */
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

  /** What is known at once is told at once: the supervisor's close then finds the proof already there. */
  #report(isEmpty: boolean): void {
    const news: News[] = []
    if (this.#exit && !this.#isExitTold) news.push({ is: 'exit', ...this.#exit })
    // Without its exit the command may be between libuv's wait and its event.
    if (isEmpty && this.#exit && !this.#isGone) news.push({ is: 'gone' })
    this.#isExitTold ||= this.#exit !== undefined
    this.#isGone ||= isEmpty && this.#exit !== undefined
    if (news.length > 0) this.#tell(...news)
    if (this.#isGone && this.#isOrphan) this.#kernel.exit(0)
  }

  #kill(): void {
    if (this.#isKilling) return
    this.#isKilling = true
    this.#tell({ is: 'killing' })
    outrun()
    this.#killUntilGone(firstPauseMs)
  }

  #killUntilGone(pauseMs: number): void {
    const untilMs = performance.now() + burstMs
    const seen = new Set<number>()
    let news = true
    while (news && !this.#isGone && performance.now() < untilMs) news = this.#killPass(seen)
    if (this.#isGone) return
    // Without news they are only on their way out.
    setTimeout(() => this.#killUntilGone(Math.min(longestPauseMs, pauseMs * 2)), news ? 0 : pauseMs)
  }

  /** Everybody is stopped, so that nobody forks, until nobody new is met; then they die. Was there anybody new? */
  #killPass(seen: Set<number>): boolean {
    for (let rounds = 0; ; rounds++) {
      // The dead first: a chain of forks leaves thousands, and each would cost a look.
      this.#reap()
      using all = findDescendants(this.#kernel, 'SIGSTOP')
      const news = all.pids.filter((pid) => !seen.has(pid))
      for (const pid of news) seen.add(pid)
      if (news.length > 0 && rounds < stopRounds) continue
      all.signal('SIGKILL')
      this.#reap()
      return rounds > 0
    }
  }
}

function isHeld({ descriptors }: StartOrder, fd: number): boolean {
  return fd < 3 || descriptors.includes(fd)
}

/** A thousand processes that spin leave us a thousandth of the machine, where we may not ask for more. */
function outrun(): void {
  try {
    setPriority(constants.priority.PRIORITY_HIGHEST)
  } catch {
    // Not root: then the limits on what one user may fork are the help.
  }
}

/** Written synchronously: the last words must be out before the exit. */
function tell(news: readonly News[]): void {
  try {
    writeSync(channelFd, news.map((one) => `${JSON.stringify(one)}\n`).join(''))
  } catch {
    // EPIPE: the supervisor is dead, and the end of the channel tells us so.
  }
}

/** The command's streams are the command's alone: a pipe must end with it, and a terminal must be left as it leaves it. */
function letGoOfStreams(descriptors: readonly number[]): void {
  for (const fd of descriptors) closeSync(fd)
  for (const fd of [0, 1, 2]) {
    closeSync(fd)
    openSync('/dev/null', 'r+') // open(2) gives the lowest number that is free.
  }
}

/** The first order is awaited in place: until there is a command, nothing else can happen. */
function awaitFirstOrder(orders: readonly Order[], take: (chunk: Buffer) => void): void {
  const chunk = Buffer.alloc(64 * 1024)
  while (orders.length === 0) {
    const count = readSync(channelFd, chunk)
    if (count === 0) return
    take(chunk.subarray(0, count))
  }
}

function run(): void {
  // Out of reach of a `pkill node` that is meant for an agent.
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
  letGoOfStreams(first.descriptors)
  obey = (order) => subreaperProcess.obey(order)
  for (const order of others) obey(order)
  const channel = new Socket({ fd: channelFd, readable: true, writable: false })
  channel.on('data', take)
  channel.on('error', () => {})
  channel.once('close', () => subreaperProcess.orphaned())
  // What was compiled is kept for the next keeper now: this one will leave without a goodbye.
  flushCompileCache()
}

try {
  run()
} catch (error) {
  tell([{ is: 'failed', error: sentence(error) }])
  process.exit(1)
}
