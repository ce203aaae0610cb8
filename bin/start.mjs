// The first lines that run on the pinned Node: what is compiled once is kept beside the bundle, for the next start.
import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

const [, , main, ...words] = process.argv
enableCompileCache(join(import.meta.dirname, '..', 'node_modules', '.cache', 'ebb'))
process.argv.splice(2, 1)
const { runMain } = await import(`../${main}`)
await runMain(words)
