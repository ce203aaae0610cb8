import { execFileSync, spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach } from 'vitest'
import { motoPython } from './aws/moto.ts'
import { ebbProgram, removeHomes, temporaryHome } from './home.ts'
import { hierarchies, ownCgroup2 } from './world.ts'

/**
 * Suites use real components. When one is missing, the suite fails under `CI=true`; otherwise it is skipped, and the skip reporter lists
 * it with the reason.
 */
const components = {
  tmux: () => program('tmux'),
  strace: () => program('strace'),
  gcc: () => program('gcc'),
  unshare: () => program('unshare'),
  ip: () => program('ip'),
  ps: () => program('ps'),
  top: () => program('top'),
  openssl: () => program('openssl'),
  moto: () => (existsSync(motoPython()) ? undefined : 'the AWS emulator is not installed; "npm test" does that'),
  docker: () => program('dockerd') ?? program('docker') ?? program('busybox') ?? root(),
  chromium: () => (chromiumProgram() === undefined ? 'no chromium and no google-chrome is installed' : undefined),
  root,
  cgroup: () => containment('cgroup'),
  subreaper: () => containment('subreaper'),
  scan: () => containment('scan'),
  koffi: () => containment('subreaper'),
  'v1 pids controller': () => controller('pids'),
  'v1 memory controller': () => controller('memory'),
  'v1 freezer controller': () => controller('freezer'),
} satisfies Record<string, () => string | undefined>

export type Component = keyof typeof components

const answers = new Map<Component, string | undefined>()

/** Why the component is missing, or undefined when it is available. */
export function missing(component: Component): string | undefined {
  if (!answers.has(component)) answers.set(component, components[component]())
  return answers.get(component)
}

/** Skips or fails the tests of the current suite, or of the whole file, when a component is missing. */
export function needs(...wanted: readonly Component[]): void {
  beforeEach((context) => {
    for (const component of wanted) {
      const reason = missing(component)
      if (reason === undefined) continue
      if (process.env.CI === 'true') throw new Error(`This suite needs ${component}: ${reason}.`)
      context.skip(`needs ${component}: ${reason}`)
    }
  })
}

/** The browser for the dashboard's tests, under any of its names. */
export function chromiumProgram(): string | undefined {
  const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']
  const found = spawnSync('sh', ['-c', 'for n; do command -v "$n" && exit; done', 'sh', ...names], { encoding: 'utf8' })
  return found.stdout.trim() || undefined
}

function root(): string | undefined {
  return process.getuid?.() === 0 ? undefined : 'the tests do not run as root'
}

function program(name: string): string | undefined {
  return spawnSync('sh', ['-c', 'command -v "$0"', name]).status === 0 ? undefined : `${name} is not installed`
}

function controller(name: string): string | undefined {
  const mount = hierarchies().find(({ version, controllers }) => version === 1 && controllers.includes(name))
  if (!mount) return `there is no v1 ${name} controller`
  return isWritable(mount.mountPoint) ? undefined : `the v1 ${name} hierarchy is not ours to write`
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK)
    return true
  } catch {
    return false
  }
}

/** Asks `ebb doctor` of this checkout whether a containment is available. */
function containment(name: string): string | undefined {
  if (name === 'cgroup' && !cgroupAvailable()) return 'cgroup v2 is not there, or not ours to write'
  const home = temporaryHome()
  try {
    const facts = execFileSync(ebbProgram, ['doctor', '--json', '--home', home], { cwd: tmpdir(), encoding: 'utf8' })
    const { containments } = JSON.parse(facts) as { containments: { name: string; available: boolean; reason?: string }[] }
    const found = containments.find((containment) => containment.name === name)
    return found?.available ? undefined : (found?.reason ?? 'ebb doctor does not know it')
  } finally {
    removeHomes([home])
  }
}

export function cgroupAvailable(): boolean {
  const own = ownCgroup2()
  return own !== undefined && isWritable(own) && isWritable(join(own, 'cgroup.procs'))
}
