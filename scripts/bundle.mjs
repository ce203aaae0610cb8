// One file per command instead of fifty: loading is most of what `ebb exec -- true` costs. bin/ebb takes the bundle
// while it is newer than every source, and the sources themselves otherwise, so nothing depends on this having run.
import { readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const inputs = { main: join(root, 'src/main.ts'), keeper: join(root, 'src/resources/process-tree/keeper.ts') }

async function bundle() {
  rmSync(join(root, 'dist'), { recursive: true, force: true })
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
    external: ['koffi', /^@modelcontextprotocol\//],
    logLevel: 'warn',
  })
  await build.write({
    dir: join(root, 'dist'),
    // CommonJS: an ES import of a built-in module runs all of its lazy getters, which for node:fs costs 5 ms.
    format: 'cjs',
    minify: 'dce-only',
    entryFileNames: '[name].cjs',
    chunkFileNames: '[name]-[hash].cjs',
  })
  await build.close()
}

function isFresh() {
  const made = statSync(join(root, 'dist', 'main.cjs'), { throwIfNoEntry: false })
  return made !== undefined && sources().every((path) => statSync(path).mtimeMs <= made.mtimeMs)
}

if (!process.argv.includes('--if-stale') || !isFresh()) {
  await bundle().catch((error) => console.error(`ebb set-up: no bundle was made, and the sources are used as they are (${error.message}).`))
}
