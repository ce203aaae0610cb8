import { close, openSync, write } from 'node:fs'
import { join } from 'node:path'

/**
 * After a quiet time nobody gets into a cgroup before a grace period of the kernel's is over (RCU, for the lock that keeps forks out
 * meanwhile): 5 to 18 ms, measured with 6.18; for about ten after that it takes 0.1. So the wait is begun while there is other work to
 * do. Nothing changes by it: a thread that asks to be where it is stays there, and into a cgroup of another domain none is let alone
 * (cgroups(7), "domain"), also if somebody has moved us since.
 */
export class CgroupKnock {
  #isUnderWay = false

  /** One at a time: another would only take a second thread from those who read and write files. */
  at(directory: string): void {
    if (this.#isUnderWay) return
    try {
      const threads = openSync(join(directory, 'cgroup.threads'), 'r+')
      this.#isUnderWay = true
      write(threads, `${process.pid}`, () =>
        close(threads, () => {
          this.#isUnderWay = false
        }),
      )
    } catch {
      // Then who enters waits.
    }
  }
}
