// Builds the dashboard from web/ into dist/web, with a compressed copy of each file. A new build replaces the earlier one completely or not at all.
// If the build is fresh, this only reads modification times and loads nothing.
import { readdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const place = join(root, 'dist', 'web')

/** The limit for the gzipped size of all scripts together, for people with a slow connection. */
const mostScriptBytes = 150_000

/** Matches the files that get a compressed copy. Other file types do not become smaller by compression, and are sent unchanged. */
const compressible = /\.(html|js|css|svg|json|txt)$/

function filesOf(folder) {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
}

function isFresh() {
  const made = statSync(join(place, 'index.html'), { throwIfNoEntry: false })
  const sources = [fileURLToPath(import.meta.url), ...['web', 'src/core/model'].flatMap((folder) => filesOf(join(root, folder)))]
  return made !== undefined && sources.every((path) => statSync(path).mtimeMs <= made.mtimeMs)
}

async function build() {
  const beganAt = new Date()
  const { build: viteBuild } = await import('vite')
  const { gzipSync } = await import('node:zlib')
  // A test runner sets another value of NODE_ENV. With that value React would be twice as large and half as fast.
  process.env.NODE_ENV = 'production'
  const outDir = `${place}-${process.pid}`
  try {
    await viteBuild({ configFile: join(root, 'web', 'vite.config.ts'), configLoader: 'native', build: { outDir }, logLevel: 'warn' })
    let scriptBytes = 0
    for (const path of filesOf(outDir)) {
      const zipped = compressible.test(path) ? gzipSync(readFileSync(path), { level: 9 }) : undefined
      if (path.endsWith('.js')) scriptBytes += zipped?.length ?? 0
      if (zipped) writeFileSync(`${path}.gz`, zipped)
    }
    if (scriptBytes >= mostScriptBytes)
      throw new Error(`its script is ${scriptBytes} bytes gzipped, and must stay below ${mostScriptBytes}`)
    // The build gets the time at which it began. A source that changed during the build is newer, so the build does not count as fresh.
    utimesSync(join(outDir, 'index.html'), beganAt, beganAt)
    replace(outDir)
  } finally {
    rmSync(outDir, { recursive: true, force: true })
  }
}

/** Replaces the build with two renames. A concurrent build has the same content, and the first one stays. */
function replace(outDir) {
  const former = `${outDir}-former`
  try {
    renameSync(place, former)
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
  }
  try {
    renameSync(outDir, place)
  } catch (error) {
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
  } finally {
    rmSync(former, { recursive: true, force: true })
  }
}

/**
 * Builds the dashboard. Where the build packages are missing, as after an installation of the runtime dependencies only, there is no dashboard, and
 * everything else works.
 */
export async function buildDashboard({ ifStale }) {
  if (ifStale && isFresh()) return
  try {
    await build()
  } catch (error) {
    console.error(`ebb set-up: the dashboard was not built (${error.message}).`)
    if (error.code !== 'ERR_MODULE_NOT_FOUND') process.exitCode = 1
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildDashboard({ ifStale: process.argv.includes('--if-stale') })
