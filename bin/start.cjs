// The first lines that run on the pinned Node: what is compiled once is kept for the next start.
const { enableCompileCache } = require('node:module')
const { join } = require('node:path')

enableCompileCache(join(__dirname, '..', 'node_modules', '.cache', 'ebb'))
const [, , which, ...words] = process.argv
process.argv.splice(2, 1)
if (which === 'dist') require('../dist/main.cjs').runMain(words)
else import('../src/main.ts').then(({ runMain }) => runMain(words))
