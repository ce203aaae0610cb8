import { join } from 'node:path'
import type { Effects } from '../../core/ports/effects.ts'

/**
 * Begins the kernel's wait before a move into a cgroup early, while the launch does other work. The first move after a quiet time waits for
 * an RCU grace period (of the lock that keeps forks out during a move): 5 to 18 ms, measured with Linux 6.18. For about 10 ms after that, a
 * move takes 0.1 ms. To begin the wait, this process writes its pid into a `cgroup.threads` file. The write moves nothing: a thread that is
 * moved into its own cgroup stays there, and the kernel refuses to move a single thread into a cgroup of another domain (cgroups(7),
 * "domain").
 */
export class CgroupKnock {
  readonly #effects: Pick<Effects, 'writeBeside'>
  #isRunning = false

  constructor(effects: Pick<Effects, 'writeBeside'>) {
    this.#effects = effects
  }

  /** At most one write at a time, because each occupies a thread of Node's pool. */
  at(directory: string): void {
    if (this.#isRunning) return
    this.#isRunning = true
    const over = (): void => {
      this.#isRunning = false
    }
    // A failure is ignored: without this write the launch is only slower.
    this.#effects.writeBeside(join(directory, 'cgroup.threads'), `${process.pid}`).then(over, over)
  }
}
