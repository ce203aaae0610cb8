import { readFileSync } from 'node:fs'
import type { NewId } from '../core/ports/ids.ts'

/** A UUID from the kernel (random(4)). Loading `node:crypto` for this alone would add 11 ms to each start. */
export const kernelId: NewId = () => {
  try {
    return readFileSync('/proc/sys/kernel/random/uuid', 'latin1').trim()
  } catch {
    return globalThis.crypto.randomUUID()
  }
}
