// One file per command instead of fifty: loading is most of what `ebb exec -- true` costs. bin/ebb takes the bundle
// while it is newer than every source, and the sources themselves otherwise.
import { rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

export async function bundle() {
  const { rolldown } = await import('rolldown')
  rmSync(join(root, 'dist'), { recursive: true, force: true })
  const build = await rolldown({ input: { main: join(root, 'src/main.ts') }, platform: 'node', external: ['koffi'], logLevel: 'warn' })
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

if (process.argv[1] === fileURLToPath(import.meta.url)) await bundle()
