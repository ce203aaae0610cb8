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
  readonly environmentTags: string | undefined
  /** The limit that carries our brand, where it has one. */
  readonly rlimitTag?: string | undefined
}

/** A living process that carries a cookie, or a brand, or both. */
export interface MarkedProcess {
  readonly pid: number
  readonly environmentTags: string
  readonly rlimitTag?: string | undefined
}

/** The machine's processes: `/proc` on Linux, `ps` on macOS. Zombies are not in it: they are dead. */
export interface ProcessTable {
  find(pid: number): ProcessEntry | undefined
  /** Every process, by a scan that begins after the call. */
  snapshot(): Promise<readonly ProcessEntry[]>
  /** Only those that carry a mark, by a scan that begins after the call. */
  marked(): Promise<readonly MarkedProcess[]>
  /** The same without waiting, for exit handlers. */
  markedNow(): readonly MarkedProcess[]
}
