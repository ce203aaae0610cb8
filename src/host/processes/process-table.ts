/** One living process at the time of a scan. */
export interface ProcessEntry {
  readonly pid: number
  readonly ppid: number
  readonly pgid: number
  readonly sid: number
  readonly state: string
  /** The start time in the kernel's unit. Boot id, pid and start time together identify a process for good. */
  readonly startTime: string
  readonly command: string
  /** The value of `EBB_SCOPE` in the environment of the process; undefined where there is none or it may not be read. */
  readonly environmentTags: string | undefined
  /** The value of RLIMIT_RSS of the process; undefined when unlimited. Ebb stores the rlimit tag there. */
  readonly rlimitTag?: string | undefined
}

/** A living process that carries an environment tag, an rlimit tag, or both. */
export interface MarkedProcess {
  readonly pid: number
  readonly environmentTags: string
  readonly rlimitTag?: string | undefined
}

/** The processes of the machine: `/proc` on Linux, `ps` on macOS. Zombies are dead, so they are left out. */
export interface ProcessTable {
  find(pid: number): ProcessEntry | undefined
  /** Every process, by a scan that begins after the call. */
  snapshot(): Promise<readonly ProcessEntry[]>
  /** The processes with a tag, by a scan that begins after the call. */
  marked(): Promise<readonly MarkedProcess[]>
  /** Like `marked`, but synchronous, because exit handlers cannot await. */
  markedNow(): readonly MarkedProcess[]
}
