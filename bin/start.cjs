// Runs before every other module of Ebb. `found` comes from bin/start.sh: the ignored signals as a mask, and the open descriptors.
const [, , which, found, ...words] = process.argv
const [mask, ...descriptors] = found.split(',').map(Number)
const { signals } = mask > 0 ? require('node:os').constants : { signals: {} }
// SIGINT and SIGQUIT are left out: a non-interactive shell ignores them for every program in the background, which no user asked for.
const ignored = Object.keys(signals).filter((signal) => !/^SIG(INT|QUIT)$/.test(signal) && (mask >> (signals[signal] - 1)) & 1)
// Node resets ignored signals at its start, and would end or stop on them. An empty handler prevents that.
const ends = /^SIG(HUP|TERM|USR1|USR2|ALRM|VTALRM|TSTP|TTIN|TTOU|XCPU|IO|PWR|STKFLT)$/
for (const signal of ignored) if (ends.test(signal)) process.on(signal, () => {})

const fs = require('node:fs')
const Module = require('node:module')
const { join } = require('node:path')

if (words[0] === 'exec') expectLaunch()

if (Number(process.versions.node.split('.')[0]) < 24) {
  const root = join(__dirname, '..')
  const isCheckout = fs.existsSync(join(root, 'package-lock.json'))
  const todo = isCheckout ? `run "npm ci" in ${root}` : 'install a newer one, or "npm install node@24" beside Ebb and start it by npx'
  console.error(`ebb: Node 24 or newer is needed, and this is ${process.version}; ${todo}, then try again.`)
  process.exit(125)
}
// Node keeps the compiled code in a cache for the next start.
Module.enableCompileCache(join(__dirname, '..', 'node_modules', '.cache', 'ebb'))

// EBB_BESIDE holds, in hexadecimal, the variables that the shell of bin/ebb drops.
const beside = process.env.EBB_BESIDE ?? ''
delete process.env.EBB_BESIDE
for (const entry of Buffer.from(beside, 'hex').toString().split('\0')) {
  if (entry !== '') process.env[entry.slice(0, entry.indexOf('='))] = entry.slice(entry.indexOf('=') + 1)
}

if (which === 'src') import('../src/main.ts').then(({ runMain }) => runMain(words, { descriptors, ignored }))
else require('../dist/main.cjs').runMain(words, { descriptors, ignored })

/** Begins the kernel's wait before a move into a cgroup while the program is loaded. The write moves nothing (src/host/containment/cgroup-knock.ts). */
function expectLaunch() {
  try {
    const [, own] = /^0::(.*)$/m.exec(fs.readFileSync('/proc/self/cgroup', 'latin1'))
    const [, mount] = /^\S+ \S+ \S+ \/ (\S+) .* - cgroup2 /m.exec(fs.readFileSync('/proc/self/mountinfo', 'latin1'))
    const threads = fs.openSync(`${mount}${own}/cgroup.threads`, 'r+')
    fs.write(threads, `${process.pid}`, () => fs.close(threads, () => {}))
  } catch {
    // Without this write the launch is only slower.
  }
}
