import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { beforeEach } from 'vitest'
import { image, type TestDaemon } from '../../support/docker.ts'
import { useDockerd } from '../../support/docker-agents.ts'
import { nodeProgram, root } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import { clis } from './programs.ts'
import type { Scene } from './scene.ts'

/** For the suite it is called in: one daemon for all of it. */
export function needsDocker(): (() => TestDaemon) | undefined {
  // Nobody can start one who is root only in the namespace that was made for the suite: there, one id is mapped and no more.
  if (/^\s*0\s+\d+\s+1\s*$/.test(readFileSync('/proc/self/uid_map', 'utf8'))) {
    beforeEach((context) => context.skip('needs docker: the suite does not run as root'))
    return undefined
  }
  needs('docker')
  return useDockerd()
}

/**
 * An agent in a container: the image has next to nothing, and sees the programs of this machine, read-only, and the folder that it
 * works in. Its home is its own, and goes with it; what leads it to the model is put there, read-only. The daemon has our network, and
 * so does the container: the model is there.
 */
export function dockerWords({ work, agentHome }: Scene, daemon: TestDaemon): readonly string[] {
  const programs = ['/usr', '/bin', '/lib', '/lib64', root, dirname(dirname(clis))].filter((path) => existsSync(path))
  const settings = readdirSync(agentHome, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  const readOnly = [...programs, ...settings.map(({ parentPath, name }) => join(parentPath, name))]
  const mounts = [...readOnly.map((path) => `${path}:${path}:ro`), `${work}:${work}`]
  const path = [clis, dirname(nodeProgram), '/usr/bin', '/bin'].join(':')
  return [
    ...['--docker-host', daemon.host, '--docker-image', image, '--docker-network', 'host', '--docker-env', `PATH=${path}`],
    ...mounts.flatMap((mount) => ['--docker-mount', mount]),
  ]
}

/** As the docker command shows it. */
export function leftAtDaemon(daemon: TestDaemon): readonly string[] {
  const volumes = daemon.docker('volume', 'ls', '--quiet').split('\n').filter(Boolean)
  return [...daemon.containers().map(({ name, state }) => `container ${name} (${state})`), ...volumes.map((name) => `volume ${name}`)]
}
