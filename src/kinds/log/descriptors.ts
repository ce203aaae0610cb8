import type { Effects } from '../../core/ports/effects.ts'

/** The descriptors that a creation has open, so that a failed creation can close all of them. */
export class Descriptors {
  readonly #effects: Effects
  readonly #open = new Set<number>()

  constructor(effects: Effects) {
    this.#effects = effects
  }

  open(path: string, flags: number, mode?: number): number {
    const fd = this.#effects.openFile(path, flags, mode)
    this.#open.add(fd)
    return fd
  }

  close(fd: number): void {
    this.#effects.closeFile(fd)
    this.#open.delete(fd)
  }

  closeAll(): void {
    for (const fd of this.#open) this.close(fd)
  }
}
