// One file per command instead of fifty: loading is most of what `ebb exec -- true` costs. bin/ebb takes the bundle
// while it is newer than every source, and the sources themselves otherwise, so nothing depends on this having run.
import { readdirSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const inputs = { main: join(root, 'src/main.ts'), keeper: join(root, 'src/resources/process-tree/keeper.ts') }

async function bundle() {
  const { rolldown } = await import('rolldown')
  rmSync(join(root, 'dist'), { recursive: true, force: true })
  const build = await rolldown({
    input: inputs,
    platform: 'node',
    external: ['koffi', 'fastify', 'socket.io', 'zod', 'pino', 'prom-client'],
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
  const sources = readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return made !== undefined && sources.every((entry) => statSync(join(entry.parentPath, entry.name)).mtimeMs <= made.mtimeMs)
}

if (!process.argv.includes('--if-stale') || !isFresh()) {
  await bundle().catch((error) => console.error(`ebb set-up: no bundle was made, and the sources are used as they are (${error.message}).`))
}
