// One file per command instead of fifty: loading is most of what `ebb exec -- true` costs. bin/ebb takes the bundle
// while it is newer than every source, and the sources themselves otherwise, so no command depends on this having run.
// Who imports Ebb does: Node strips no types below node_modules, so the library and the testing kit are in lib/, as JavaScript.
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildDashboard } from './dashboard.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const inputs = { main: join(root, 'src/main.ts'), 'subreaper-process': join(root, 'src/host/containment/subreaper-process.ts') }

/** What `ebb exec` needs, and no more: a third more of it is a tenth more of its time. The doctor's judgement is the doctor's. */
const core =
  /\/src\/(core\/(model|ports)|config)\/|\/src\/core\/engine\/(?!reap|status)|\/src\/host\/(program|clock|path|remove-folder)\.ts|\/src\/placements\/([a-z-]+\.ts|[a-z]+\/(definition|host-option)\.ts|(process|tmux)\/)/

async function bundle() {
  // The dashboard beside it has a freshness of its own.
  const earlier = existsSync(join(root, 'dist')) ? readdirSync(join(root, 'dist')).filter((name) => !name.startsWith('web')) : []
  for (const name of earlier) rmSync(join(root, 'dist', name), { recursive: true, force: true })
  // Each by itself: a keeper would otherwise load what it shares with main, and main that in many small files.
  for (const [name, file] of Object.entries(inputs)) await bundleOne({ [name]: file })
  writeFileSync(join(root, 'dist', 'fresh.sh'), freshness())
}

/** For bin/ebb: `m` is `dist` unless a source is newer. A file that is new is imported by one that has changed. */
function freshness() {
  const names = sources().map((path) => `'${relative(root, path)}'`)
  return `m=dist\nfor f in ${names.join(' ')}; do [ "$d/$f" -nt "$d/dist/main.cjs" ] && m=src && break; done\n`
}

function sources() {
  const entries = readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
}

async function bundleOne(input) {
  const { rolldown } = await import('rolldown')
  const build = await rolldown({
    input,
    platform: 'node',
    external: ['koffi', 'dockerode', /^@aws-sdk\//, /^@modelcontextprotocol\//],
    logLevel: 'warn',
  })
  await build.write({
    dir: join(root, 'dist'),
    // CommonJS: an ES import of a built-in module runs all of its lazy getters, which for node:fs costs 5 ms.
    format: 'cjs',
    minify: 'dce-only',
    entryFileNames: '[name].cjs',
    chunkFileNames: '[name]-[hash].cjs',
    // What every command needs is one file: fifteen more of them cost `ebb exec -- true` a tenth of its time.
    ...('main' in input && { codeSplitting: { groups: [{ name: 'core', test: core }] } }),
  })
  await build.close()
}

/** File by file, so that what is found by its place, such as bin/ebb, is found from there as from src/. Types are checked elsewhere. */
function compileLibrary() {
  rmSync(join(root, 'lib'), { recursive: true, force: true })
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  execFileSync(process.execPath, [tsc, '-p', join(root, 'tsconfig.lib.json')], { stdio: ['ignore', 2, 2] })
}

function isFresh() {
  const made = ['dist/main.cjs', 'lib/index.js'].map((name) => statSync(join(root, name), { throwIfNoEntry: false })?.mtimeMs ?? 0)
  return sources().every((path) => statSync(path).mtimeMs <= Math.min(...made))
}

const ifStale = process.argv.includes('--if-stale')
if (!ifStale || !isFresh()) {
  try {
    compileLibrary()
    await bundle()
  } catch (error) {
    console.error(`ebb set-up: no bundle was made, and the sources are used as they are (${error.message}).`)
  }
}
await buildDashboard({ ifStale })
