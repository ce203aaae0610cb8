/** One living process, as a scan saw it. */
export interface ProcessEntry {
  readonly pid: number
  readonly ppid: number
  readonly pgid: number
  readonly sid: number
  readonly state: string
  /** In the kernel's unit; together with boot id and pid it names a process for good. */
  readonly startTime: string
  readonly command: string
  /** The value of our cookie in its environment, where it has one and we may read it. */
  readonly cookies: string | undefined
}

/** A living process that carries a cookie. */
export interface MarkedProcess {
  readonly pid: number
  readonly cookies: string
}

/** The machine's processes: `/proc` on Linux, `ps` on macOS. Zombies are not in it: they are dead. */
export interface ProcessTable {
  find(pid: number): ProcessEntry | undefined
  /** Every process, by a scan that begins after the call. */
  snapshot(): Promise<readonly ProcessEntry[]>
  /** Only those that carry a cookie, by a scan that begins after the call: one file a process instead of two. */
  marked(): Promise<readonly MarkedProcess[]>
  /** The same without waiting, for exit handlers. */
  markedNow(): readonly MarkedProcess[]
}
