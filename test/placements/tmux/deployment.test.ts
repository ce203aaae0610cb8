import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Control } from '../../../src/control.ts'
import { isEbbError } from '../../../src/core/model/errors.ts'
import { temporaryHome } from '../../support/home.ts'
import { installationOf } from '../../support/ledger-file.ts'
import { needs } from '../../support/real.ts'
import { openSupervisor, type SupervisorOptions } from '../../support/supervisor.ts'
import { sessionsOf } from '../../support/tmux.ts'
import { processesOfHome, describe as show } from '../../support/world.ts'

needs('tmux')

/** Deployments into tmux that fail at any step must leave nothing. */

interface Scene {
  readonly control: Control
  readonly home: string
  readonly base: string
  deploy(script: string): Promise<unknown>
}

async function withScene(options: SupervisorOptions, act: (scene: Scene) => Promise<void>): Promise<void> {
  const home = options.home ?? temporaryHome()
  const base = temporaryHome()
  await using supervisor = await openSupervisor({ ...options, home })
  const control = await supervisor.control()
  const task = await control.tasks.create({ namespace: 'default', description: 'a task', priority: 'P2', base, caller: 'orchestrator' })
  const deploy = (script: string): Promise<unknown> =>
    control.tasks.deploy({
      taskId: task.id,
      agentType: 'builder',
      prompt: 'the prompt',
      parent: 'orchestrator',
      provider: 'command',
      placement: 'tmux',
      command: ['sh', '-c', script],
      caller: 'orchestrator',
    })
  await act({ control, home, base, deploy })
  await control.close()
}

/** Requires that no file, agent folder, session, process or row is left. The test looks at the system itself, not at reports of Ebb. */
async function expectNothing({ control, home, base }: Scene): Promise<void> {
  expect(files(base)).toEqual([])
  expect(readdirSync(join(home, 'run'))).toEqual([])
  expect(readdirSync(join(home, 'logs'))).toEqual([])
  expect(sessionsOf(home)).toEqual([])
  const left = processesOfHome(home, installationOf(home)).filter(({ environ }) => `\0${environ}`.includes('\0EBB_SCOPE='))
  expect(left.map(show)).toEqual([])
  expect((await control.store.list({})).agents).toEqual([])
}

/** Files without folders: the workspace of the task may stay for the next deployment. */
function files(folder: string): readonly string[] {
  if (!existsSync(folder)) return []
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name))
}

const lasting = 'echo ready; exec sleep 1000'

/** True when the report in the error says that the rollback is proven, or when the deployment had created nothing. */
function isProven(error: unknown): boolean {
  if (!isEbbError(error)) return false
  const report = error.details as { readonly success?: boolean } | undefined
  return report?.success !== false
}

async function failure(work: Promise<unknown>): Promise<unknown> {
  return await work.then(
    () => new Error('The deployment succeeded.'),
    (error: unknown) => error,
  )
}

/** Returns options of a supervisor that make one method of a port fail on every call while `isOn` is set. */
function failing(port: string, method: string): SupervisorOptions & { isOn: boolean } {
  const options: SupervisorOptions & { isOn: boolean } = {
    isOn: false,
    wrap: (name, target) =>
      name === port
        ? new Proxy(target, {
            get: (of, key) => {
              const value: unknown = Reflect.get(of, key)
              if (key === method && options.isOn) return () => Promise.reject(new Error(`simulated: ${port}.${method}`))
              return typeof value === 'function' ? value.bind(of) : value
            },
          })
        : target,
  }
  return options
}

describe('tmux: a deployment that fails leaves nothing (G1)', () => {
  it('when tmux cannot create the session', async () => {
    const home = temporaryHome()
    const bin = temporaryHome()
    writeFileSync(
      join(bin, 'tmux'),
      '#!/bin/sh\ncase "$*" in *new-session*) echo "no more sessions" >&2; exit 1;; esac\nexec /usr/bin/tmux "$@"\n',
      {
        mode: 0o755,
      },
    )
    const path = process.env.PATH
    process.env.PATH = `${bin}:${path}`
    try {
      await withScene({ home }, async (scene) => {
        const error = await failure(scene.deploy(lasting))
        expect(String(error)).toContain('no more sessions')
        expect(isProven(error)).toBe(true)
        await expectNothing(scene)
      })
    } finally {
      process.env.PATH = path
    }
  })

  it('when the session ends at once', async () => {
    await withScene({}, async (scene) => {
      const error = await failure(scene.deploy('exit 9'))
      expect(String(error)).toContain('exit code 9; start its command by hand')
      expect(isProven(error)).toBe(true)
      await expectNothing(scene)
    })
  })

  it('when the session ends at once: its last output is in the error', async () => {
    await withScene({}, async (scene) => {
      const error = await failure(scene.deploy('echo first; echo "the key is wrong" >&2; exit 9'))
      expect(String(error)).toContain('exit code 9; its last line was: the key is wrong')
      await expectNothing(scene)
    })
  })

  it.each([
    ['its row and its intents cannot be written', 'ledger', 'intend'],
    ['its start cannot be written', 'agents', 'change'],
    ['the ledger cannot record that it is held', 'ledger', 'hold'],
  ])('when %s', async (_, port, method) => {
    const fault = failing(port, method)
    await withScene(fault, async (scene) => {
      fault.isOn = true
      const error = await failure(scene.deploy(lasting))
      fault.isOn = false
      expect(String(error)).toContain('simulated')
      await expectNothing(scene)
    })
  })

  it('when any single effect fails', async () => {
    let failed = 0
    for (let k = 1; ; k++) {
      const outcome = await deployWithoutEffect(k)
      if (outcome === 'not reached') break
      if (outcome === 'failed') failed += 1
    }
    expect(failed).toBeGreaterThan(20)
  }, 120_000)
})

async function deployWithoutEffect(k: number): Promise<'failed' | 'succeeded' | 'not reached'> {
  let outcome: unknown
  const fault = new FailingEffect(k)
  await withScene({ wrap: (name, target) => (name === 'effects' ? fault.wrap(target) : target) }, async (scene) => {
    fault.isOn = true
    outcome = await scene.deploy(lasting).catch((error: unknown) => error)
    fault.isOn = false
    if (!(outcome instanceof Error)) return
    expect(outcome.message, `effect ${k}`).toContain('simulated')
    expect(isProven(outcome), `effect ${k}`).toBe(true)
    await expectNothing(scene)
  })
  if (!fault.wasReached) return 'not reached'
  return outcome instanceof Error ? 'failed' : 'succeeded'
}

/** Makes the k-th effect of a deployment throw. */
class FailingEffect {
  readonly #k: number
  #count = 0
  isOn = false

  constructor(k: number) {
    this.#k = k
  }

  get wasReached(): boolean {
    return this.#count >= this.#k
  }

  wrap<T extends object>(effects: T): T {
    return new Proxy(effects, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key)
        if (typeof value !== 'function') return value
        return (...args: unknown[]): unknown => {
          if (this.isOn && ++this.#count === this.#k) throw new Error(`simulated: effect ${this.#k}, ${String(key)}`)
          return Reflect.apply(value, target, args)
        }
      },
    })
  }
}
