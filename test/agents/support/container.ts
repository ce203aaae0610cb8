import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { beforeEach } from 'vitest'
import { image, type TestDaemon } from '../../support/docker.ts'
import { useDockerd } from '../../support/docker-agents.ts'
import { nodeProgram, root } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import { clis } from './programs.ts'
import type { Scene } from './scene.ts'

/** Starts one daemon for the suite in which it is called. */
export function needsDocker(): (() => TestDaemon) | undefined {
  // With a single mapped uid the process is root only in the suite's user namespace, and cannot start a daemon.
  if (/^\s*0\s+\d+\s+1\s*$/.test(readFileSync('/proc/self/uid_map', 'utf8'))) {
    beforeEach((context) => context.skip('needs docker: the suite does not run as root'))
    return undefined
  }
  needs('docker')
  return useDockerd()
}

/**
 * Settings for an agent in a container. The image is almost empty. The container sees this host's programs read-only and the agent's
 * working folder. Its home belongs to the container; the files that configure the model are mounted read-only. Daemon and container use
 * the host's network, where the model is.
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

/** Containers and volumes, as the docker command lists them. */
export function leftAtDaemon(daemon: TestDaemon): readonly string[] {
  const volumes = daemon.docker('volume', 'ls', '--quiet').split('\n').filter(Boolean)
  return [...daemon.containers().map(({ name, state }) => `container ${name} (${state})`), ...volumes.map((name) => `volume ${name}`)]
}
