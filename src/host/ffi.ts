import { createRequire } from 'node:module'
import { constants } from 'node:os'

/**
 * System calls that Node does not offer. Loading koffi takes 10 ms, so only a subreaper process does it, and the doctor when it ends
 * processes.
 */
export interface Kernel {
  /** Makes orphaned descendants children of this process from now on (PR_SET_CHILD_SUBREAPER(2const)). */
  adoptOrphans(): void
  /** Sets FD_CLOEXEC on a descriptor. Node sets it on low descriptor numbers only (uv_disable_stdio_inheritance). */
  closeOnExec(fd: number): void
  /** Reaps one dead child. Returns `alive` when all children are living, and `none` when there is no child (ECHILD). */
  reap(): DeadChild | 'alive' | 'none'
  /** A descriptor that refers to this process and to no later process with the same pid; undefined when pidfd_open(2) fails. */
  openPidfd(pid: number): number | undefined
  signalPidfd(fd: number, signal: NodeJS.Signals | 0): boolean
  /** _exit(2): ends the process at once. Node's own exit takes several milliseconds. */
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
/** The flag __WALL, by which waitpid(2) also waits for children of clone(2) whose exit signal is not SIGCHLD. */
const wAll = 0x40000000
/** The numbers of two system calls. They are the same on every architecture (kernel 5.1 and later). */
const sysPidfdSendSignal = 424
const sysPidfdOpen = 434

type Syscall = (number: number, first: number, second: number, third: number, fourth: number) => number

export function openKernel(): Kernel {
  const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi')
  // `koffi.load(null)` means this process, which has the C library loaded already, under whatever file name.
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

/** Decodes a status of wait(2), like WIFEXITED, WEXITSTATUS and WTERMSIG. */
function decodeStatus(status: number): Pick<DeadChild, 'code' | 'signal'> {
  const signal = status & 0x7f
  if (signal === 0) return { code: (status >> 8) & 0xff, signal: null }
  const name = Object.entries(constants.signals).find(([, number]) => number === signal)?.[0]
  return { code: null, signal: (name ?? 'SIGKILL') as NodeJS.Signals }
}
