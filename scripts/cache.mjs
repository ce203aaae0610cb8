// A cache for installations that all checkouts share. An installation is made in a staging folder, verified, and renamed. So a killed installation leaves
// no incomplete cache, and one of two concurrent installations wins. No dependencies, like setup.mjs.
import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

export function cacheFolder() {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'ebb')
}

/** Returns the name of a new staging folder, and removes the folders of killed installations. */
export function stagingIn(cache) {
  mkdirSync(cache, { recursive: true })
  removeAbandoned(cache)
  return join(cache, `staging-${process.pid}-${randomBytes(4).toString('hex')}`)
}

/**
 * Renames the staging folder to its final name. If a folder with that name exists, a concurrent installation made it with the same content, and it
 * stays.
 */
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
