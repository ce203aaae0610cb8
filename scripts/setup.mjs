// Dependency-free bootstrap for any Node from 20 on: sets up what is missing, then does the job on the pinned Node.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { installMoto } from './moto.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const node = join(root, 'node_modules', 'node', 'bin', 'node')
const stamp = join(root, 'node_modules', '.ebb-setup')

const jobs = {
  start: (rest) => run(join(root, 'bin', 'ebb'), ['serve', '--test-endpoints', ...rest]),
  test: (rest) => {
    const missing = systemPackages()
    if (missing !== 0) return missing
    emulator()
    return run(node, ['node_modules/vitest/vitest.mjs', 'run', ...rest])
  },
  'test:agents': (rest) => {
    const missing = systemPackages({ tmux: 'tmux', ip: 'iproute2', unshare: 'util-linux', ...containers })
    if (missing !== 0) return missing
    return run(node, [
      'scripts/with-agents.mjs',
      node,
      'node_modules/vitest/vitest.mjs',
      'run',
      '--config=vitest.agents.config.ts',
      ...rest,
    ])
  },
  check: () =>
    runAll(['biome', 'check', '.'], ['oxlint', '--deny-warnings'], ['tsc', '-p', '.'], ['tsc', '-p', 'web'], ['knip']) ||
    run(node, ['scripts/check-docs.mjs']),
  docs: () => run(node, ['scripts/reference.mjs']),
  soak: (rest) => run(node, ['--disable-warning=ExperimentalWarning', 'bench/soak.ts', ...rest]),
  bench: (rest) => {
    emulator()
    return run(node, ['--disable-warning=ExperimentalWarning', 'bench/main.ts', ...rest])
  },
  profile: (rest) => run(node, ['--disable-warning=ExperimentalWarning', 'bench/profile.ts', ...rest]),
  'bench:leaks': (rest) => {
    const missing = systemPackages({ tmux: 'tmux', ps: 'procps', gcc: 'gcc', ip: 'iproute2', unshare: 'util-linux' })
    if (missing !== 0) return missing
    return run(node, ['--disable-warning=ExperimentalWarning', 'bench/leaks/main.ts', ...rest])
  },
}

/** Of AWS, for the suites and the benchmark that close things there. */
function emulator() {
  const problem = installMoto()
  if (problem !== undefined) console.log(`ebb set-up: ${problem}`)
}

function run(program, args) {
  const path = `${join(root, 'node_modules', '.bin')}:${process.env.PATH}`
  const result = spawnSync(program, args, { cwd: root, stdio: 'inherit', env: { ...process.env, PATH: path } })
  if (result.error) console.error(`ebb set-up: ${program} could not be started: ${result.error.message}`)
  return result.status ?? 1
}

function runAll(...commands) {
  for (const [name, ...args] of commands) {
    console.log(`> ${[name, ...args].join(' ')}`)
    const code = run(join(root, 'node_modules', '.bin', name), args)
    if (code !== 0) return code
  }
  return 0
}

function install() {
  const lock = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex')
  const known = existsSync(stamp) ? readFileSync(stamp, 'utf8') : ''
  if (known === lock && existsSync(node)) return
  console.log('ebb set-up: installing dependencies (once)…')
  const code = run('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'])
  if (code !== 0) {
    console.error('ebb set-up: "npm ci" failed; the lines above say why.')
    process.exit(code)
  }
  writeFileSync(stamp, lock)
}

/** What the suites need from the system: tmux for terminals, strace and procps to look from outside, chattr for files that stay, chromium for the dashboard, shells to complete in. */
const suites = {
  tmux: 'tmux',
  strace: 'strace',
  ps: 'procps',
  gcc: 'gcc',
  chattr: 'e2fsprogs',
  ip: 'iproute2',
  chromium: 'chromium',
  zsh: 'zsh',
  fish: 'fish',
}
/** A daemon of their own, with an image made of one program; dockerd looks for iptables even when it is to leave it alone. */
const containers = { dockerd: 'docker.io', docker: 'docker.io', busybox: 'busybox-static', iptables: 'iptables' }

function systemPackages(needed = { ...suites, ...containers }) {
  const missing = Object.entries(needed).filter(([program]) => spawnSync('sh', ['-c', `command -v ${program}`]).status !== 0)
  if (missing.length === 0) return 0
  const packages = [...new Set(missing.map(([, name]) => name))]
  const command = `apt-get install -y --no-install-recommends ${packages.join(' ')}`
  if (process.getuid?.() !== 0 || spawnSync('sh', ['-c', 'command -v apt-get']).status !== 0) {
    console.log(`ebb set-up: some suites will be skipped; this would install what they need: ${command}`)
    return 0
  }
  console.log(`ebb set-up: ${command}`)
  run('apt-get', ['update', '-qq'])
  if (run('sh', ['-c', `DEBIAN_FRONTEND=noninteractive ${command} >/dev/null`]) !== 0)
    console.log('ebb set-up: that did not work; the suites that need it say so.')
  return 0
}

const [job = '', ...rest] = process.argv.slice(2)
if (!Object.hasOwn(jobs, job)) {
  console.error(`ebb set-up: there is no job "${job}"; use one of ${Object.keys(jobs).join(', ')}.`)
  process.exit(2)
}
install()
if (job !== 'check' && job !== 'docs') run(node, ['scripts/bundle.mjs', '--if-stale'])
process.exit(jobs[job](rest))
