// Bootstrap without dependencies for Node 20 or newer: installs what is missing, then runs the job on the pinned Node.
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
    reportMissing(['unit', 'core'])
    return vitest(['unit', 'core'], rest)
  },
  'test:full': (rest) => {
    installPackages(Object.keys(tiers))
    emulator()
    // The tests with real agents are a separate run, with their own PATH and network namespace.
    const others = vitest(['unit', 'core', 'placements', 'browser', 'crash'], rest)
    return vitest(['agents'], rest, ['scripts/with-agents.mjs', node]) || others
  },
  'test:agents': (rest) => {
    installPackages(['agents'])
    return vitest(['agents'], rest, ['scripts/with-agents.mjs', node])
  },
  'test:packages': () => installPackages(Object.keys(tiers)),
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
    install(missingPackages(benchmarks))
    return run(node, ['--disable-warning=ExperimentalWarning', 'bench/leaks/main.ts', ...rest])
  },
}

/** Installs the AWS emulator, for the tests and the benchmark of placement ecs. */
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

function installDependencies() {
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

/** Runs tiers (projects of vitest.config.ts). Arguments that name a project, or files of any tier, replace the tiers of the command. */
function vitest(projects, rest, through = []) {
  const isChosen = rest.some((word) => word.startsWith('--project') || /^(\.\/)?test\//.test(word))
  const chosen = isChosen && through.length === 0 ? [] : projects.map((name) => `--project=${name}`)
  return run(node, [...through, 'node_modules/vitest/vitest.mjs', 'run', ...chosen, ...results(projects), ...rest])
}

/** `EBB_TEST_RESULTS` names a folder for results in JSON, one file per run of vitest. */
function results([first]) {
  const folder = process.env.EBB_TEST_RESULTS
  if (!folder) return []
  return [
    '--reporter=json',
    '--reporter=default',
    '--reporter=./test/support/skip-reporter.ts',
    `--outputFile.json=${join(folder, `${first}.json`)}`,
  ]
}

/** The tests start their own Docker daemon, with an image of one program. dockerd needs iptables even when it must not use it. */
const docker = { dockerd: 'docker.io', docker: 'docker.io', busybox: 'busybox-static', iptables: 'iptables' }
/** The programs that each tier needs from the system, with their Debian packages. A test whose program is missing is skipped and listed. */
const tiers = {
  unit: {},
  core: { tmux: 'tmux', strace: 'strace', ps: 'procps', gcc: 'gcc', chattr: 'e2fsprogs', ip: 'iproute2', zsh: 'zsh', fish: 'fish' },
  placements: { tmux: 'tmux', gcc: 'gcc', ip: 'iproute2', ...docker },
  browser: { chromium: 'chromium' },
  crash: { tmux: 'tmux', ...docker },
  agents: { tmux: 'tmux', ip: 'iproute2', unshare: 'util-linux', ...docker },
}
const benchmarks = { tmux: 'tmux', ps: 'procps', gcc: 'gcc', ip: 'iproute2', unshare: 'util-linux' }

function missingPackages(needed) {
  const missing = Object.entries(needed).filter(([program]) => spawnSync('sh', ['-c', `command -v ${program}`]).status !== 0)
  return [...new Set(missing.map(([, name]) => name))]
}

const packagesOf = (names) => missingPackages(Object.assign({}, ...names.map((name) => tiers[name])))
const aptCommand = (packages) => `apt-get install -y --no-install-recommends ${packages.join(' ')}`

/** Lists the missing system packages, because `npm test` installs none. */
function reportMissing(names) {
  const packages = packagesOf(names)
  if (packages.length === 0) return
  console.log(`ebb set-up: not installed: ${packages.join(', ')}. The tests that need them are skipped and listed at the end.`)
  console.log(`ebb set-up: to install them: ${aptCommand(packages)}`)
}

function installPackages(names) {
  return install(packagesOf(names))
}

function install(packages) {
  if (packages.length === 0) return 0
  const command = aptCommand(packages)
  if (process.getuid?.() !== 0 || spawnSync('sh', ['-c', 'command -v apt-get']).status !== 0) {
    console.log(`ebb set-up: some tests will be skipped. This command installs what they need: ${command}`)
    return 0
  }
  console.log(`ebb set-up: installing system packages: ${command}`)
  run('apt-get', ['update', '-qq'])
  if (run('sh', ['-c', `DEBIAN_FRONTEND=noninteractive ${command} >/dev/null`]) !== 0)
    console.log('ebb set-up: apt-get failed; the tests that need these packages are skipped and listed.')
  return 0
}

const [job = '', ...rest] = process.argv.slice(2)
if (!Object.hasOwn(jobs, job)) {
  console.error(`ebb set-up: there is no job "${job}"; use one of ${Object.keys(jobs).join(', ')}.`)
  process.exit(2)
}
installDependencies()
if (job !== 'check' && job !== 'docs') run(node, ['scripts/bundle.mjs', '--if-stale'])
process.exit(jobs[job](rest))
