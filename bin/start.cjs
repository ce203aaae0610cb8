// The first lines that run on the pinned Node: what is compiled once is kept for the next start.
const { enableCompileCache } = require('node:module')
const { join } = require('node:path')

if (Number(process.versions.node.split('.')[0]) < 24) {
  console.error(`ebb: the pinned Node is not installed here; run "npm ci" in ${join(__dirname, '..')}, then try again.`)
  process.exit(125)
}
enableCompileCache(join(__dirname, '..', 'node_modules', '.cache', 'ebb'))

// Variables that the shell of bin/ebb would have forgotten, in hexadecimal.
const beside = process.env.EBB_BESIDE ?? ''
delete process.env.EBB_BESIDE
for (const entry of Buffer.from(beside, 'hex').toString().split('\0')) {
  if (entry !== '') process.env[entry.slice(0, entry.indexOf('='))] = entry.slice(entry.indexOf('=') + 1)
}

const [, , which, descriptors, ...words] = process.argv
const inherited = descriptors.split(',').filter(Boolean).map(Number)
if (which === 'dist') require('../dist/main.cjs').runMain(words, inherited)
else import('../src/main.ts').then(({ runMain }) => runMain(words, inherited))
