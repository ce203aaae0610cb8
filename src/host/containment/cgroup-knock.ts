import { close, openSync, write } from 'node:fs'
import { join } from 'node:path'

/**
 * Begins the kernel's wait before a move into a cgroup early, while the launch does other work. The first move after a quiet time waits for
 * an RCU grace period (of the lock that keeps forks out during a move): 5 to 18 ms, measured with Linux 6.18. For about 10 ms after that, a
 * move takes 0.1 ms. To begin the wait, this process writes its pid into a `cgroup.threads` file. The write moves nothing: a thread that is
 * moved into its own cgroup stays there, and the kernel refuses to move a single thread into a cgroup of another domain (cgroups(7),
 * "domain").
 */
export class CgroupKnock {
  #isRunning = false

  /** At most one write at a time, because each occupies a thread of Node's pool. */
  at(directory: string): void {
    if (this.#isRunning) return
    try {
      const threads = openSync(join(directory, 'cgroup.threads'), 'r+')
      this.#isRunning = true
      write(threads, `${process.pid}`, () =>
        close(threads, () => {
          this.#isRunning = false
        }),
      )
    } catch {
      // Without this write the launch is only slower.
    }
  }
}
