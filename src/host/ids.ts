import { readFileSync } from 'node:fs'
import type { NewId } from '../core/ports/ids.ts'

/** random(4): the kernel makes them; loading `node:crypto` for this alone would cost a start 11 ms. */
export const kernelId: NewId = () => {
  try {
    return readFileSync('/proc/sys/kernel/random/uuid', 'latin1').trim()
  } catch {
    return globalThis.crypto.randomUUID()
  }
}
