// Installs the server of moto, which emulates ECS, ELBv2 and S3, into a cache folder named after the hash of its requirements. No dependencies, like
// setup.mjs.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheFolder, publish, stagingIn } from './cache.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const requirements = join(root, 'test', 'support', 'aws', 'requirements.txt')

/** The Python of the virtual environment; start moto with `-m moto.server`. A virtual environment can be moved, but the programs in it cannot. */
export function motoPython() {
  const hash = createHash('sha256').update(readFileSync(requirements)).digest('hex').slice(0, 12)
  return join(cacheFolder(), `moto-${hash}`, 'bin', 'python')
}

/** Returns one sentence with the reason if the installation failed. The suites that need moto are then skipped. */
export function installMoto() {
  const python = motoPython()
  const folder = dirname(dirname(python))
  if (existsSync(python)) return undefined
  if (spawnSync('python3', ['-c', 'import venv, ensurepip']).status !== 0)
    return 'python3 with venv is not installed, so the suites against the AWS emulator will be skipped.'
  console.log('ebb set-up: installing the AWS emulator (once, about 300 MB)…')
  const staging = stagingIn(dirname(folder))
  try {
    const own = join(staging, 'bin', 'python')
    const steps = [
      ['python3', '-m', 'venv', staging],
      [own, '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '-r', requirements],
      [own, '-c', 'import moto.server'],
    ]
    for (const [program, ...words] of steps)
      if (spawnSync(program, words, { stdio: ['ignore', 'ignore', 'inherit'] }).status !== 0)
        return `"${words.slice(0, 3).join(' ')}" failed, so the suites against the AWS emulator will be skipped.`
    publish(staging, folder)
    return undefined
  } finally {
    rmSync(staging, { recursive: true, force: true })
  }
}
