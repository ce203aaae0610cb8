// Bundles the command line into one file instead of fifty, because loading modules is most of the time of `ebb exec -- true`. bin/ebb runs the bundle
// while it is newer than every source in it, and the sources otherwise, so no command needs the bundle. A program that imports Ebb needs lib/: Node
// strips no types below node_modules, so the library and the testing kit are compiled to JavaScript there.
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildDashboard } from './dashboard.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const inputs = { main: join(root, 'src/main.ts'), 'subreaper-process': join(root, 'src/host/containment/subreaper-process.ts') }

/** The modules that `ebb exec` starts from. They and all that they import statically are in main.cjs; all others are loaded on first use. */
const exec = /\/src\/(main|cli\/cli|cli\/commands\/exec|placements\/(process|tmux)\/placement)\.ts$/

async function bundle() {
  // The dashboard in dist/web has its own check for freshness.
  const earlier = existsSync(join(root, 'dist')) ? readdirSync(join(root, 'dist')).filter((name) => !name.startsWith('web')) : []
  for (const name of earlier) rmSync(join(root, 'dist', name), { recursive: true, force: true })
  // Each program gets its own bundle. A common build would split the shared code into many small files, and both programs would have to load them.
  const bundled = new Set()
  for (const [name, file] of Object.entries(inputs)) for (const path of await bundleOne(name, file)) bundled.add(path)
  writeFileSync(join(root, 'dist', 'fresh.sh'), freshness([...bundled]))
}

/**
 * A script for bin/start.sh that sets `ebb_from` to `dist`, or to `src` if a source in a bundle is newer. A file that is in no bundle needs no
 * check, because a changed file imports it before it matters.
 */
function freshness(bundled) {
  const names = bundled.map((path) => `'${relative(root, path)}'`)
  const loop = `for ebb_file in ${names.join(' ')}; do [ "$ebb_root/$ebb_file" -nt "$ebb_root/dist/main.cjs" ] && ebb_from=src && break; done`
  return `ebb_from=dist\n${loop}\n`
}

function sources() {
  const entries = readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
}

/** Writes one bundle, and returns the paths of its sources. */
async function bundleOne(name, file) {
  const { rolldown } = await import('rolldown')
  const build = await rolldown({
    // Where a group contains the entry, rolldown writes the entry as a file that only exports the group again. Nothing loads that file.
    input: { [name === 'main' ? 'main-entry' : name]: file },
    platform: 'node',
    external: ['koffi', 'dockerode', /^@aws-sdk\//, /^@modelcontextprotocol\//],
    logLevel: 'warn',
    // `ebb run` imports the module of `ebb exec` statically.
    checks: { ineffectiveDynamicImport: false },
  })
  const { output } = await build.write({
    dir: join(root, 'dist'),
    // The format is CommonJS, because an ES import of a built-in module runs all of its lazy getters, which takes 5 ms for node:fs.
    format: 'cjs',
    minify: 'dce-only',
    comments: false,
    // One character outside of ASCII would make V8 keep the text of a whole file with two bytes per character.
    charset: 'ascii',
    // The code that every command needs is one file, because each file takes 0.3 ms to find, read and check.
    ...(name === 'main' && { codeSplitting: { groups: [{ name, test: exec }] } }),
    entryFileNames: '[name].cjs',
    chunkFileNames: (chunk) => (chunk.name === name ? '[name].cjs' : '[name]-[hash].cjs'),
  })
  const sourcesRead = (await build.watchFiles).filter((path) => path.startsWith(join(root, 'src/')))
  await build.close()
  if (name === 'main') withRuntime(output)
  return sourcesRead
}

/** Puts rolldown's helper functions, which it writes into a file of their own, into main.cjs as well: that file took 0.3 ms of each start. */
function withRuntime(output) {
  const main = output.find(({ fileName }) => fileName === 'main.cjs')
  const runtime = output.find(({ fileName }) => fileName.startsWith('rolldown-runtime-'))
  const required = `require("./${runtime.fileName}")`
  const code = main.code.replace(required, () => `((exports) => {\n${runtime.code}return exports;\n})({})`)
  if (code === main.code) throw new Error(`main.cjs does not contain ${required}`)
  // bin/start.cjs reads main.cjs as ASCII.
  if (!/^[\0-\x7f]*$/.test(code)) throw new Error('main.cjs contains a character outside of ASCII')
  writeFileSync(join(root, 'dist', 'main.cjs'), code)
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
