import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { startDockerd, type TestDaemon } from './docker.ts'
import { temporaryHome } from './home.ts'
import { missing } from './real.ts'
import type { TestServer } from './server.ts'
import { waitUntil } from './world.ts'

/** Helpers that the suites of the docker placement share: one daemon per file, and agents in its containers. */

/** Starts a daemon before the first test of the file. Checks after the last test that it is gone. */
export function useDockerd(): () => TestDaemon {
  let daemon: TestDaemon | undefined
  beforeAll(async () => {
    if (missing('docker') === undefined) daemon = await startDockerd()
  }, 60_000)
  afterAll(async () => await daemon?.end(), 60_000)
  return () => {
    if (!daemon) throw new Error('There is no docker daemon.')
    return daemon
  }
}

export const shell = (script: string): readonly string[] => ['sh', '-c', script]

/** A script that counts up, one line at a time, until the gate file exists. Then it prints the last number and exits with the code. */
export const counter = (gate: string, code = 0): readonly string[] =>
  shell(`n=0; while [ ! -e ${gate} ]; do n=$((n+1)); echo "line $n"; sleep 0.01; done; echo "last $n"; exit ${code}`)

/** Like `counter('/gate/open')`, but writes its progress to `/gate/count` and pauses while `/gate/halt` exists. */
export const haltingCounter = shell(
  `n=0; while [ ! -e /gate/open ]; do if [ -e /gate/halt ]; then touch /gate/halted; while [ -e /gate/halt ]; do sleep 0.01; done; fi;
  n=$((n+1)); echo "line $n"; echo $n >/gate/count; sleep 0.01; done; echo "last $n"`,
)

export async function inDocker(
  server: TestServer,
  argv: readonly string[],
  configuration: object = {},
  more: object = {},
): Promise<string> {
  return await server.launch({
    type: 'command',
    prompt: '',
    placement: 'docker',
    configuration: { command: argv, ...configuration },
    ...more,
  })
}

/** The container of an agent, found by its label. */
export function containerOf(daemon: TestDaemon, agentId: string): string {
  const [found] = daemon.containers(`ebb.scope=${agentId}`)
  if (!found) throw new Error(`There is no container of ${agentId}.`)
  return found.id
}

export async function becomes(daemon: TestDaemon, id: string, state: string): Promise<void> {
  await waitUntil(() => daemon.docker('inspect', '-f', '{{.State.Status}}', id) === state, 10_000, `the container is ${state}`)
}

export interface Gate {
  /** Settings of a server whose agents see the folder as `/gate`. */
  readonly words: readonly string[]
  open(name?: string): void
  close(name: string): void
  isOpen(name: string): boolean
  /** The last line that `haltingCounter` has certainly printed. */
  count(): number
}

/** A folder that agents see, through which a test controls them. */
export function gateFolder(daemon: TestDaemon, folder = temporaryHome()): Gate {
  mkdirSync(folder, { recursive: true })
  return {
    words: [...daemon.words, '--docker-mount', `${folder}:/gate`],
    open: (name = 'open') => writeFileSync(join(folder, name), ''),
    close: (name) => rmSync(join(folder, name)),
    isOpen: (name) => existsSync(join(folder, name)),
    // The file is empty for a moment while it is written. `Number('')` is 0.
    count: () => Number(readFileSync(join(folder, 'count'), 'utf8')),
  }
}

/** Shell code that waits until the test opens the named gate. */
export const untilOpen = (name: string): string => `while [ ! -e /gate/${name} ]; do sleep 0.02; done`
