// Runs before every other module of Ebb. `found` comes from bin/start.sh: the ignored signals as a mask, and the open descriptors.
const [, , which, found, ...words] = process.argv
const [mask, ...descriptors] = found.split(',').map(Number)
const { signals } = mask > 0 ? require('node:os').constants : { signals: {} }
// SIGINT and SIGQUIT are left out: a non-interactive shell ignores them for every program in the background, which no user asked for.
const ignored = Object.keys(signals).filter((signal) => !/^SIG(INT|QUIT)$/.test(signal) && (mask >> (signals[signal] - 1)) & 1)
// Node resets ignored signals at its start, and would end or stop on them. An empty handler prevents that.
const ends = /^SIG(HUP|TERM|USR1|USR2|ALRM|VTALRM|TSTP|TTIN|TTOU|XCPU|IO|PWR|STKFLT)$/
for (const signal of ignored) if (ends.test(signal)) process.on(signal, () => {})

// Node keeps the compiled code in a cache for the next start.
const { existsSync } = require('node:fs')
const { enableCompileCache } = require('node:module')
const { join } = require('node:path')

if (Number(process.versions.node.split('.')[0]) < 24) {
  const root = join(__dirname, '..')
  const isCheckout = existsSync(join(root, 'package-lock.json'))
  const todo = isCheckout ? `run "npm ci" in ${root}` : 'install a newer one, or "npm install node@24" beside Ebb and start it by npx'
  console.error(`ebb: Node 24 or newer is needed, and this is ${process.version}; ${todo}, then try again.`)
  process.exit(125)
}
enableCompileCache(join(__dirname, '..', 'node_modules', '.cache', 'ebb'))

// EBB_BESIDE holds, in hexadecimal, the variables that the shell of bin/ebb drops.
const beside = process.env.EBB_BESIDE ?? ''
delete process.env.EBB_BESIDE
for (const entry of Buffer.from(beside, 'hex').toString().split('\0')) {
  if (entry !== '') process.env[entry.slice(0, entry.indexOf('='))] = entry.slice(entry.indexOf('=') + 1)
}

if (which === 'src') import('../src/main.ts').then(({ runMain }) => runMain(words, { descriptors, ignored }))
else require('../dist/main.cjs').runMain(words, { descriptors, ignored })
