import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type ProbeDeps, readVersion } from '../../../src/agents/probe.ts'
import { readStart } from '../../../src/host/slow-effects.ts'
import { tempFolderOf } from '../../../src/kinds/temp-folder/kind.ts'
import { nodeProgram, root, temporaryHome } from '../../support/home.ts'
import { installationOf, openBooks } from '../../support/ledger-file.ts'
import { openSupervisor, type TestSupervisor } from '../../support/supervisor.ts'
import { processesOfHome, seen, waitUntil } from '../../support/world.ts'

/** The version query of a program: it returns an answer or none, and nothing of the program outlives it. */

const environment = { PATH: '/usr/bin:/bin' }

let home: string
/** A file for the pids of the program. */
let file: string
let supervisor: TestSupervisor

beforeEach(async () => {
  home = temporaryHome()
  file = join(temporaryHome(), 'pid')
  vi.stubEnv('TMPDIR', temporaryHome())
  supervisor = await openSupervisor({ home, watched: false })
})
afterEach(async () => {
  vi.unstubAllEnvs()
  await supervisor[Symbol.asyncDispose]()
})

function deps(more: Partial<ProbeDeps> = {}): ProbeDeps {
  const { engine, clock, newId, plan } = supervisor
  return { engine, clock, newId, plan, environment, readStart, tempFolderOf: (id) => tempFolderOf(tmpdir(), id), ...more }
}

const probe = (script: string, more?: Partial<ProbeDeps>): Promise<string | undefined> => readVersion(['/bin/sh', '-c', script], deps(more))

/** The resources in the ledger, and the temp folders, that are left. */
const left = (): readonly string[] => [...openBooks(home).filter((line) => !line.startsWith('incarnation')), ...readdirSync(tmpdir())]

/** A program that prints, then hangs, and leaves a daemon in a session of its own that ignores SIGTERM. It writes both pids to a file. */
function hanging(): string {
  const daemon = `setsid sh -c 'trap "" TERM HUP; echo $$ >>${file}; exec sleep 1000' &`
  return `trap "" TERM; echo $$ >>${file}; ${daemon} echo 1.2.3; while :; do sleep 1000; done`
}

const pids = (): readonly number[] => (existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean).map(Number) : [])

const areGone = (): boolean => pids().length > 0 && pids().every((pid) => seen(pid) === undefined)

describe('version query', () => {
  it('returns the output of the program, or undefined when the program fails or is not there', async () => {
    expect(await probe('echo 1.2.3')).toBe('1.2.3')
    expect(await probe('printf "a warning\\n1.2.3"')).toBe('a warning\n1.2.3')
    expect(await probe('echo 1.2.3; exit 1')).toBeUndefined()
    expect(await readVersion(['/nonexistent/program'], deps())).toBeUndefined()
    expect(left()).toEqual([])
  })

  it('returns at most 4096 bytes', async () => {
    expect(await probe('head -c 100000 /dev/zero | tr "\\0" x')).toHaveLength(4_096)
  })

  it('gives the program a temp folder of its own, and removes it with its contents', async () => {
    const said = await probe('mkdir -p "$TMPDIR/deep"; echo x >"$TMPDIR/deep/library.so"; stat -c %a "$TMPDIR"; echo "$TMPDIR"')
    const [mode, path = ''] = said?.split('\n') ?? []
    expect([mode, path.startsWith(join(tmpdir(), 'ebb-probe-')), existsSync(path)]).toEqual(['700', true, false])
  })

  it.each([
    ['holds the output open', 'sleep 1000'],
    ['has closed the output', 'sleep 1000 >/dev/null'],
    ['is in another session and ignores SIGTERM', `setsid sh -c 'trap "" TERM; exec sleep 1000'`],
  ])('has ended a child of the program that %s when it returns', async (_which, child) => {
    expect(await probe(`${child} & echo $! >${file}; echo 1.2.3`)).toBe('1.2.3')
    expect(pids().map((pid) => seen(pid))).toEqual([undefined])
    expect(left()).toEqual([])
  })

  it('returns undefined for a program that hangs, and has ended it and its child', async () => {
    const { clock } = supervisor
    // The budget ends once both processes run, so the test need not wait for it.
    const hurried: ProbeDeps['clock'] = {
      ...clock,
      after: (ms, signal, then) =>
        ms === 5_000 ? void waitUntil(() => pids().length === 2, 30_000, 'both run').then(then) : clock.after(ms, signal, then),
    }
    expect(await probe(hanging(), { clock: hurried })).toBeUndefined()
    expect(pids()).toHaveLength(2)
    expect(areGone()).toBe(true)
    expect(left()).toEqual([])
  })

  it('is refused when this process is leaving, and starts nothing', async () => {
    await supervisor.engine.shutDown()
    await expect(probe(`echo $$ >${file}; echo 1.2.3`)).rejects.toMatchObject({ code: 'scope_closed' })
    expect(existsSync(file)).toBe(false)
  })
})

describe('SIGKILL of Ebb during a version query', () => {
  /** Kills a process that asks a hanging program for its version, once that program and its daemon run. */
  async function killedDuringProbe(isWatched: boolean): Promise<void> {
    const program = join(root, 'test', 'fixtures', 'asks-for-a-version.ts')
    const words = ['--disable-warning=ExperimentalWarning', program, home, String(isWatched), hanging()]
    const asking = spawn(nodeProgram, words, { stdio: ['ignore', 'ignore', 'inherit'] })
    const gone = once(asking, 'exit')
    try {
      await waitUntil(() => pids().length === 2, 30_000, 'the program and its daemon run')
    } finally {
      asking.kill('SIGKILL')
      await gone
    }
  }

  it('leaves nothing: the sentinel ends the program, its daemon and its temp folder', async () => {
    await killedDuringProbe(true)
    await waitUntil(areGone, 30_000, 'the program and its daemon are gone')
    await waitUntil(() => [...processesOfHome(home, installationOf(home)), ...openBooks(home), ...left()], 30_000, 'nothing is left')
  })

  it('leaves nothing without a sentinel: the next start finds all of it in the ledger', async () => {
    await killedDuringProbe(false)
    expect(left()).toHaveLength(3)
    expect(await supervisor.engine.recover()).toMatchObject({ reports: [{ success: true }], errors: [] })
    expect([areGone(), left()]).toEqual([true, []])
  })
})
