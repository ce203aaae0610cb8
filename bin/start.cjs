// Runs before every other module of Ebb. `found` comes from bin/start.sh: the ignored signals as a mask, and the open descriptors.
const [, , which, found, ...words] = process.argv
const [mask, ...descriptors] = found.split(',').map(Number)
const { signals } = mask > 0 ? require('node:os').constants : { signals: {} }
// SIGINT and SIGQUIT do not stay ignored: a non-interactive shell ignores both for its background programs, which no user asked for.
const ignored = Object.keys(signals).filter((signal) => !/^SIG(INT|QUIT)$/.test(signal) && (mask >> (signals[signal] - 1)) & 1)
// Node resets ignored signals at its start, and would end or stop on them. An empty handler prevents that.
const ends = /^SIG(HUP|TERM|USR1|USR2|ALRM|VTALRM|TSTP|TTIN|TTOU|XCPU|IO|PWR|STKFLT)$/
for (const signal of ignored) if (ends.test(signal)) process.on(signal, () => {})

const fs = require('node:fs')
const Module = require('node:module')
const { dirname, join } = require('node:path')

const isExec = words[0] === 'exec'
if (isExec) expectLaunch()

if (Number(process.versions.node.split('.')[0]) < 24) {
  const root = join(__dirname, '..')
  const isCheckout = fs.existsSync(join(root, 'package-lock.json'))
  const todo = isCheckout ? `run "npm ci" in ${root}` : 'install a newer one, or "npm install node@24" beside Ebb and start it by npx'
  console.error(`ebb: Node 24 or newer is needed, and this is ${process.version}; ${todo}, then try again.`)
  process.exit(125)
}
// Node keeps the compiled code in a cache for the next start.
const cache = join(__dirname, '..', 'node_modules', '.cache', 'ebb')
Module.enableCompileCache(cache)

// EBB_BESIDE holds, in hexadecimal, the variables that the shell of bin/ebb drops.
const beside = process.env.EBB_BESIDE ?? ''
delete process.env.EBB_BESIDE
for (const entry of Buffer.from(beside, 'hex').toString().split('\0')) {
  if (entry !== '') process.env[entry.slice(0, entry.indexOf('='))] = entry.slice(entry.indexOf('=') + 1)
}

if (which === 'src') import('../src/main.ts').then(({ runMain }) => runMain(words, { descriptors, ignored }))
else if (isExec) runWithCode(join(__dirname, '..', 'dist', 'main.cjs'))
else require('../dist/main.cjs').runMain(words, { descriptors, ignored })

/** Begins the kernel's wait before a move into a cgroup while the program is loaded. The write moves nothing (src/host/containment/cgroup-knock.ts). */
function expectLaunch() {
  try {
    const [, own] = /^0::(.*)$/m.exec(fs.readFileSync('/proc/self/cgroup', 'latin1'))
    const [, mount] = /^\S+ \S+ \S+ \/ (\S+) .* - cgroup2 /m.exec(fs.readFileSync('/proc/self/mountinfo', 'latin1'))
    const threads = fs.openSync(`${mount}${own}/cgroup.threads`, 'r+')
    fs.write(threads, `${process.pid}`, () => fs.close(threads, () => {}))
  } catch {
    // If the write to cgroup.threads fails, the launch is only slower.
  }
}

/**
 * Runs the bundle with the code of the functions that an earlier run has compiled. Node's compile cache holds only the code that runs while
 * a file is loaded: with it, V8 compiles 550 functions in each `ebb exec`, which takes 5 ms. The file with the code ends with the text that
 * the code was compiled from, because V8 compares only the length of the text.
 */
function runWithCode(file) {
  const vm = require('node:vm')
  const codeFile = join(cache, `exec-${process.version}-${process.arch}-${process.getuid?.()}`)
  const source = fs.readFileSync(file)
  const kept = readKept(codeFile)
  const length = kept.length - source.length
  const isUsable = length > 0 && kept.subarray(length).equals(source)
  // The bundle is ASCII only (scripts/bundle.mjs).
  const script = new vm.Script(`(function (exports, require, module, __filename, __dirname) {${source.latin1Slice()}\n})`, {
    filename: file,
    importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    ...(isUsable && { cachedData: kept.subarray(0, length) }),
  })
  const keepCode = () => succeeds(() => writeKept(codeFile, () => Buffer.concat([script.createCachedData(), source])))
  const main = new Module(file, module)
  main.filename = file
  require.cache[file] = main // The other files of the bundle require main.cjs.
  script.runInThisContext().call(main.exports, main.exports, Module.createRequire(file), main, file, dirname(file))
  main.loaded = true
  main.exports.runMain(words, { descriptors, ignored, ...((!isUsable || script.cachedDataRejected) && { keepCode }) })
}

function succeeds(work) {
  try {
    work()
    return true
  } catch {
    return false
  }
}

/** Empty when the file does not exist, cannot be read, or may have been written by another user: V8 executes the code as it is. */
function readKept(codeFile) {
  const kept = []
  succeeds(() => {
    const fd = fs.openSync(codeFile, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW)
    const { uid, mode } = fs.fstatSync(fd)
    if (uid === process.getuid?.() && (mode & 0o022) === 0) kept.push(fs.readFileSync(fd))
    fs.closeSync(fd)
  })
  return kept[0] ?? Buffer.alloc(0)
}

/**
 * Writes the file with the code. V8 does not check the code, so the file is complete on the disk before it gets its final name, and no other
 * process writes to its draft. The code is made only when there is a draft to write it to. Without the file the next start is only slower.
 */
function writeKept(codeFile, makeContent) {
  const draft = `${codeFile}.${process.pid}-${process.hrtime.bigint()}`
  const fd = fs.openSync(draft, 'wx', 0o600)
  try {
    fs.writeFileSync(fd, makeContent())
    fs.fsyncSync(fd)
    fs.renameSync(draft, codeFile)
  } catch {
    fs.unlinkSync(draft)
  }
  fs.closeSync(fd)
  // The drafts of processes that were killed while they wrote.
  for (const name of fs.readdirSync(dirname(codeFile))) {
    const file = join(dirname(codeFile), name)
    if (file.startsWith(`${codeFile}.`) && fs.statSync(file).mtimeMs < Date.now() - 60_000) fs.unlinkSync(file)
  }
}
