import { createRequire } from 'node:module'
import { constants } from 'node:os'

/** The system calls that Node does not have. Loading koffi takes 10 ms, so only a keeper does it. */
export interface Kernel {
  /** Orphans among our descendants become our children from now on (PR_SET_CHILD_SUBREAPER(2const)). */
  adoptOrphans(): void
  /** Node does it for low numbers only (uv_disable_stdio_inheritance). */
  closeOnExec(fd: number): void
  /** One dead child; `alive` when there are only living ones, `none` when there is no child at all (ECHILD). */
  reap(): DeadChild | 'alive' | 'none'
  /** A descriptor that means this process and no later one of the same pid; undefined where it cannot be had. */
  openPidfd(pid: number): number | undefined
  signalPidfd(fd: number, signal: NodeJS.Signals | 0): boolean
  /** _exit(2): at once, without Node's own goodbye of several milliseconds. */
  exit(code: number): void
}

export interface DeadChild {
  readonly pid: number
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

const prSetChildSubreaper = 36
const fSetFd = 2
const fdCloExec = 1
const wNoHang = 1
/** Children of clone(2) that announce their end by another signal than SIGCHLD count too. */
const wAll = 0x40000000
/** The same numbers on every architecture (kernel 5.1 and later). */
const sysPidfdSendSignal = 424
const sysPidfdOpen = 434

type Syscall = (number: number, first: number, second: number, third: number, fourth: number) => number

export function openKernel(): Kernel {
  const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi')
  // Our own process: its C library is loaded already, whatever it is called.
  const libc = koffi.load(null)
  const prctl: Syscall = libc.func('int prctl(int, long, long, long, long)')
  const fcntl: (fd: number, command: number, flags: number) => number = libc.func('int fcntl(int, int, int)')
  const waitpid: (pid: number, status: Int32Array, options: number) => number = libc.func('int waitpid(int, int *, int)')
  const syscall: Syscall = libc.func('long syscall(long, long, long, long, long)')
  const exit: (code: number) => void = libc.func('void _exit(int)')
  const status = new Int32Array(1)
  return {
    adoptOrphans: () => {
      if (prctl(prSetChildSubreaper, 1, 0, 0, 0) !== 0) throw new Error(`prctl was refused (errno ${koffi.errno()})`)
    },
    closeOnExec: (fd) => {
      if (fcntl(fd, fSetFd, fdCloExec) !== 0) throw new Error(`fcntl was refused (errno ${koffi.errno()})`)
    },
    reap: () => {
      for (;;) {
        const pid = waitpid(-1, status, wNoHang | wAll)
        if (pid > 0) return { pid, ...decodeStatus(status[0] ?? 0) }
        if (pid === 0) return 'alive'
        if (koffi.errno() === constants.errno.ECHILD) return 'none'
        if (koffi.errno() !== constants.errno.EINTR) return 'alive'
      }
    },
    openPidfd: (pid) => {
      const fd = syscall(sysPidfdOpen, pid, 0, 0, 0)
      return fd < 0 ? undefined : fd
    },
    signalPidfd: (fd, signal) => syscall(sysPidfdSendSignal, fd, signal === 0 ? 0 : constants.signals[signal], 0, 0) === 0,
    exit,
  }
}

/** wait(2): WIFEXITED, WEXITSTATUS and WTERMSIG. */
function decodeStatus(status: number): Pick<DeadChild, 'code' | 'signal'> {
  const signal = status & 0x7f
  if (signal === 0) return { code: (status >> 8) & 0xff, signal: null }
  const name = Object.entries(constants.signals).find(([, number]) => number === signal)?.[0]
  return { code: null, signal: (name ?? 'SIGKILL') as NodeJS.Signals }
}
