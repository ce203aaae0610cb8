// Installs the real agent programs into a cache folder named after the hash of their lock file. This module has no dependencies, like setup.mjs.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheFolder, publish, stagingIn } from './cache.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const source = join(root, 'test', 'agents')
const manifests = ['package.json', 'package-lock.json']

/** The agent programs by provider type. The suite needs the required ones. When another program is missing, its tests are skipped and listed. */
const programs = {
  'claude-code': { program: 'claude', isRequired: true },
  'gemini-cli': { program: 'gemini', isRequired: true },
  codex: { program: 'codex', isRequired: false },
  opencode: { program: 'opencode', isRequired: false },
}

/** The packages whose install scripts install the native program. Other install scripts are not run, because they compile unneeded code. */
const withScripts = ['@anthropic-ai/claude-code', 'opencode-ai']

/** Returns the folder of the programs, and the version of each working program. Throws when a required program does not work. */
export async function agentClis() {
  const cache = cacheFolder()
  const folder = join(cache, `agents-${hash()}`)
  if (!existsSync(folder)) await install(cache, folder)
  const versions = JSON.parse(readFileSync(join(folder, 'versions.json'), 'utf8'))
  const missing = Object.keys(programs).filter((type) => versions[type] === undefined)
  if (missing.length > 0) say(`${missing.join(' and ')} could not be installed and will be skipped; remove ${folder} to try again.`)
  return { bin: join(folder, 'node_modules', '.bin'), versions }
}

function hash() {
  const sum = createHash('sha256')
  for (const name of manifests) sum.update(readFileSync(join(source, name)))
  return sum.digest('hex').slice(0, 12)
}

async function install(cache, folder) {
  const staging = stagingIn(cache)
  mkdirSync(staging)
  try {
    for (const name of manifests) copyFileSync(join(source, name), join(staging, name))
    say('installing the real agents (once, about 1.3 GB)…')
    // `npm ci` is not used, because it refuses a lock file that lacks an optional package of any platform. Some of those packages are not published.
    await npm(staging, ['install', '--no-save', '--ignore-scripts'])
    await npm(staging, ['rebuild', ...withScripts])
    rmSync(join(staging, 'tmp'), { recursive: true, force: true })
    writeFileSync(join(staging, 'versions.json'), `${JSON.stringify(versionsIn(staging), null, 2)}\n`)
    publish(staging, folder)
  } finally {
    rmSync(staging, { recursive: true, force: true })
  }
}

function npm(folder, words) {
  const startedAt = Date.now()
  const quiet = ['--no-audit', '--no-fund', '--loglevel=error']
  // An install script starts the program that it installed, and that program leaves a folder in TMPDIR. So TMPDIR is a folder that is removed later.
  const TMPDIR = join(folder, 'tmp')
  mkdirSync(TMPDIR, { recursive: true })
  return new Promise((resolve, reject) => {
    const child = spawn('npm', [...words, ...quiet], {
      cwd: folder,
      env: { ...process.env, TMPDIR },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    const timer = setInterval(() => say(`npm ${words[0]}: ${Math.round((Date.now() - startedAt) / 1_000)} s…`), 10_000)
    child.once('error', reject)
    child.once('close', (code) => {
      clearInterval(timer)
      if (code === 0) resolve()
      else reject(new Error(`the real agents could not be installed: "npm ${words[0]}" failed, and the lines above say why.`))
    })
  })
}

/** The versions of the programs that run. A program that is installed and does not run counts as missing. */
function versionsIn(staging) {
  const home = join(staging, 'probe')
  mkdirSync(home)
  const bin = join(staging, 'node_modules', '.bin')
  const env = { PATH: `${bin}:${dirname(process.execPath)}:${process.env.PATH}`, HOME: home, TMPDIR: home }
  const versions = {}
  for (const [type, { program, isRequired }] of Object.entries(programs)) {
    const { status, stdout } = spawnSync(join(bin, program), ['--version'], { cwd: home, env, encoding: 'utf8', timeout: 60_000 })
    if (status === 0) versions[type] = /\d+\.\d+\S*/.exec(stdout)?.[0] ?? stdout.trim()
    else if (isRequired) throw new Error(`${program} was installed, but "${program} --version" fails; the suite needs it.`)
  }
  rmSync(home, { recursive: true, force: true })
  return versions
}

export function say(sentence) {
  console.log(`ebb agents: ${sentence}`)
}
