import { watch } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Ctx } from '../../core/ports/kind.ts'
import { isPopulated } from './cgroup-files.ts'

/**
 * The kernel throttles the notifications of `cgroup.events` to one in about 10 ms. So that file is read every 1 ms at first, and later
 * after each notification.
 */
const eagerChecks = 15
const eagerCheckMs = 1
const lazyCheckMs = 100

/** Settles when no living process is left in the cgroup. Calls `onCheck` after each wait. */
export async function untilEmpty(directory: string, ctx: Ctx, onCheck: () => void): Promise<void> {
  const events = join(directory, 'cgroup.events')
  for (let checks = 0; isPopulated(directory) === true; checks++) {
    if (ctx.signal.aborted) throw new Error('the wait was given up')
    await (checks < eagerChecks ? after(eagerCheckMs, ctx) : changeOf(events, ctx))
    onCheck()
  }
}

/** The pause before the next eager check of a cgroup. */
export function nextCheck(ctx: Ctx): Promise<void> {
  return after(eagerCheckMs, ctx)
}

function after(ms: number, ctx: Ctx): Promise<void> {
  return new Promise((resolve) => {
    ctx.clock.after(ms, ctx.signal, resolve)
    ctx.signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** Settles at the next notification of `cgroup.events`, or after `lazyCheckMs`, because notifications can be lost. */
async function changeOf(file: string, ctx: Ctx): Promise<void> {
  const notified = Promise.withResolvers<void>()
  let watcher: ReturnType<typeof watch> | undefined
  try {
    watcher = watch(file, () => notified.resolve())
    watcher.on('error', () => notified.resolve())
  } catch {
    // No inotify watch is free, or the file is gone: the next check decides.
  }
  try {
    // The cgroup may have become empty between the last check and the watch.
    if (isPopulated(dirname(file)) !== true) return
    await Promise.race([notified.promise, after(lazyCheckMs, ctx)])
  } finally {
    watcher?.close()
  }
}
