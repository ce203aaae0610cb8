import { watch } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Ctx } from '../../core/ports/kind.ts'
import { isPopulated } from './cgroup-files.ts'

/** `cgroup.events` notifications are throttled to about 10 ms: look at 1 ms steps first, then wait to be told. */
const eagerLooks = 15
const eagerLookMs = 1
const lazyLookMs = 100

/** Settles when no living process is left in the cgroup. */
export async function emptied(directory: string, ctx: Ctx, onLook: () => void): Promise<void> {
  const events = join(directory, 'cgroup.events')
  for (let looks = 0; isPopulated(directory) === true; looks++) {
    if (ctx.signal.aborted) throw new Error('the wait was given up')
    await (looks < eagerLooks ? after(eagerLookMs, ctx) : changeOf(events, ctx))
    onLook()
  }
}

export function lookAgain(ctx: Ctx): Promise<void> {
  return after(eagerLookMs, ctx)
}

function after(ms: number, ctx: Ctx): Promise<void> {
  return new Promise((resolve) => {
    ctx.clock.after(ms, ctx.signal, resolve)
    ctx.signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** The next notification of the file, or a slow look where notifications are lost. */
async function changeOf(file: string, ctx: Ctx): Promise<void> {
  const told = Promise.withResolvers<void>()
  let watcher: ReturnType<typeof watch> | undefined
  try {
    watcher = watch(file, () => told.resolve())
    watcher.on('error', () => told.resolve())
  } catch {
    // Out of inotify watches, or the file is gone: the look decides.
  }
  try {
    // The change may have come between the last look and the watch.
    if (isPopulated(dirname(file)) !== true) return
    await Promise.race([told.promise, after(lazyLookMs, ctx)])
  } finally {
    watcher?.close()
  }
}
