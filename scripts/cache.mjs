// What is installed once for all checkouts: made beside its place, looked at, and renamed, so that a killed install leaves no half
// cache and of two at once one wins. Dependency-free, like setup.mjs.
import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

export function cacheFolder() {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'ebb')
}

/** A place of one's own to install in; what killed installs left goes. */
export function stagingIn(cache) {
  mkdirSync(cache, { recursive: true })
  removeAbandoned(cache)
  return join(cache, `staging-${process.pid}-${randomBytes(4).toString('hex')}`)
}

/** Whoever was first has the same in it. */
export function publish(staging, folder) {
  try {
    renameSync(staging, folder)
  } catch (error) {
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
  }
}

function removeAbandoned(cache) {
  for (const name of readdirSync(cache)) {
    const pid = /^staging-(\d+)-/.exec(name)?.[1]
    if (pid !== undefined && !isAlive(Number(pid))) rmSync(join(cache, name), { recursive: true, force: true })
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}
