// Bundles the command line into one file instead of fifty, because loading modules is most of the time of `ebb exec -- true`. bin/ebb runs the bundle
// while it is newer than every source, and the sources otherwise, so no command needs the bundle. A program that imports Ebb needs lib/: Node
// strips no types below node_modules, so the library and the testing kit are compiled to JavaScript there.
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildDashboard } from './dashboard.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const inputs = { main: join(root, 'src/main.ts'), 'subreaper-process': join(root, 'src/host/containment/subreaper-process.ts') }

/** Matches the modules that `ebb exec` needs. All others, such as the doctor's, are excluded: a third more code makes `ebb exec` a tenth slower. */
const core =
  /\/src\/(core\/(model|ports)|config)\/|\/src\/core\/engine\/(?!reap|status)|\/src\/host\/(program|clock|path|remove-folder)\.ts|\/src\/placements\/([a-z-]+\.ts|[a-z]+\/(definition|host-option)\.ts|(process|tmux)\/)/

async function bundle() {
  // The dashboard in dist/web has its own check for freshness.
  const earlier = existsSync(join(root, 'dist')) ? readdirSync(join(root, 'dist')).filter((name) => !name.startsWith('web')) : []
  for (const name of earlier) rmSync(join(root, 'dist', name), { recursive: true, force: true })
  // Each program gets its own bundle. A common build would split the shared code into many small files, and both programs would have to load them.
  for (const [name, file] of Object.entries(inputs)) await bundleOne({ [name]: file })
  writeFileSync(join(root, 'dist', 'fresh.sh'), freshness())
}

/** A script for bin/start.sh that sets `ebb_from` to `dist`, or to `src` if a source is newer. A new file needs no check, because a changed file imports it. */
function freshness() {
  const names = sources().map((path) => `'${relative(root, path)}'`)
  const loop = `for ebb_file in ${names.join(' ')}; do [ "$ebb_root/$ebb_file" -nt "$ebb_root/dist/main.cjs" ] && ebb_from=src && break; done`
  return `ebb_from=dist\n${loop}\n`
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
    // The format is CommonJS, because an ES import of a built-in module runs all of its lazy getters, which takes 5 ms for node:fs.
    format: 'cjs',
    minify: 'dce-only',
    entryFileNames: '[name].cjs',
    chunkFileNames: '[name]-[hash].cjs',
    // The code that every command needs is one file. Fifteen more files make `ebb exec -- true` a tenth slower.
    ...('main' in input && { codeSplitting: { groups: [{ name: 'core', test: core }] } }),
  })
  await build.close()
}

/** Compiles file by file, so that relative paths, such as that of bin/ebb, are the same from lib/ and src/. `npm run check` checks the types. */
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
    console.error(`ebb set-up: the bundle could not be created, so Ebb runs from its sources (${error.message}).`)
  }
}
await buildDashboard({ ifStale })
