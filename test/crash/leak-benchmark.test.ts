import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { baselineColour } from '../../bench/leaks/chart.ts'
import { countProcesses, endAll, filesOf, processesOf } from '../../bench/leaks/checker.ts'
import { Collection } from '../../bench/leaks/collection.ts'
import { documentOf } from '../../bench/leaks/document.ts'
import { endAbandoned, runApart } from '../../bench/leaks/host.ts'
import type { Machine } from '../../bench/leaks/machine.ts'
import type { Measurement } from '../../bench/leaks/measurement.ts'
import { Place } from '../../bench/leaks/place.ts'
import { readResults, runOf, summary } from '../../bench/leaks/results.ts'
import { cleanTime } from '../../bench/leaks/tables.ts'
import { fixture } from '../support/fixtures.ts'
import { root } from '../support/home.ts'
import { currentMark } from '../support/mark.ts'
import { folders, ownCgroup2, processesWhere, type Seen, seen, waitUntil } from '../support/world.ts'

/** Tests that the leak benchmark detects leaks: one that misses them would rate every program as clean. */

let base = ''
let place: Place

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), `ebb-test-${currentMark()}`))
  place = new Place(base, `leakbenchmark${process.pid}x`)
})

afterEach(async () => {
  await waitUntil(() => endAll(place.mark) === 0, 10_000, 'the checker has ended what it sees')
  place[Symbol.dispose]()
  rmSync(base, { recursive: true, force: true })
})

/** Starts a process that is hard to find: in a session of its own, with an empty environment. */
function leak(words: readonly string[], cwd = '/', env: NodeJS.ProcessEnv = {}): ChildProcess {
  const [program = '', ...rest] = words
  return spawn(program, rest, { cwd, env, detached: true, stdio: 'ignore' })
}

it('bench: a wrong argument is refused before 1.3 GB of agents are installed', () => {
  const main = join(root, 'bench', 'leaks', 'main.ts')
  const bench = (...words: string[]): unknown => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...words], {
      encoding: 'utf8',
      timeout: 20_000,
      env: { XDG_CACHE_HOME: base },
    })
    return [status, stdout, stderr]
  }
  const said = (start: string): RegExp => new RegExp(`^bench: ${start}.*\\n$`)
  expect(bench('--way', 'tree-kil')).toEqual([2, '', expect.stringMatching(said('There is no "tree-kil"; use one of .*tree-kill'))])
  expect(bench('--wya', 'execa')).toEqual([2, '', expect.stringMatching(said("Unknown option '--wya'"))])
  expect(bench('--program', 'stopped', '--rounds', 'x')).toEqual([2, '', expect.stringMatching(said('--rounds must be a whole number'))])
})

describe('leak benchmark: checker', () => {
  it('counts a leaked process with its own session and an empty environment by its arguments', async () => {
    leak([fixture('waits'), place.mark])
    await waitUntil(() => countProcesses(place) === 1, 10_000, 'the leak is seen')
    expect(processesOf(place.mark).map(({ environ }) => environ)).toEqual([''])
  })

  it('counts a leaked process without a mark by its working directory', async () => {
    leak([fixture('waits')], place.work)
    await waitUntil(() => countProcesses(place) === 1, 10_000, 'the leak is seen')
  })

  it('counts a leaked process that no list shows by the leash file that it holds open', async () => {
    // The daemon inherits the open leash, a named pipe, from its parent, which exits. Nothing else connects the daemon to this test.
    const parent = leak([fixture('daemonizes-without-environment'), fixture('waits'), currentMark()], '/', {
      EBB_TEST_LEASH: place.leashPath,
    })
    await new Promise((resolve) => parent.once('exit', resolve))
    // Before its exec, the daemon still has the environment of its parent, and the process list shows it.
    await waitUntil(() => processesOf(place.mark), 10_000, 'no list shows the daemon')
    expect(countProcesses(place)).toBe(1)
    endAll(currentMark())
    await waitUntil(() => countProcesses(place) === 0, 10_000, 'the leash is closed')
  })

  it('counts nothing when nothing is left', () => {
    expect(countProcesses(place)).toBe(0)
    expect(filesOf(place).count).toBe(0)
  })

  it('counts temporary files and files in HOME, except those listed as user data', () => {
    for (const [folder, name] of [
      [place.temp, 'left.sock'],
      [join(place.home, '.claude', 'shell-snapshots'), 'snapshot-bash-1.sh'],
      [join(place.home, '.codex', 'thread-writer-locks'), 'thread.lock'],
      [join(place.home, '.unheard-of'), 'file'],
      [join(place.home, '.claude', 'projects', 'work'), 'transcript.jsonl'],
      [join(place.home, '.codex'), 'state_5.sqlite-wal'],
    ] as const) {
      mkdirSync(folder, { recursive: true })
      writeFileSync(join(folder, name), 'x')
    }
    // Empty folders do not count as files. One folder belongs to a single run, the other is shared by all runs.
    for (const folder of ['.claude/session-env/run', '.claude/sessions']) mkdirSync(join(place.home, folder), { recursive: true })
    expect(filesOf(place).count).toBe(5)
  })
})

describe('leak benchmark: cell', () => {
  it('counts a daemon that survives SIGTERM as left and the answer as a false "clean", and ends it', async () => {
    const measured = await apart('sigterm-pid', 'setsid-daemon')
    expect(measured).toMatchObject({ processesLeft: 1, verdict: 'false', answer: { isDone: true, processesThen: 1 } })
    expect(measured.cleanMs).toBeUndefined()
  })

  it('counts no process for the same daemon under ebb exec', async () => {
    const measured = await apart('ebb-exec-scan', 'setsid-daemon')
    expect(measured).toMatchObject({ processesLeft: 0, verdict: 'true' })
    expect(measured.cleanMs).toBeGreaterThan(0)
  })

  it('rejects when the program does not exist', async () => {
    await expect(apart('sigterm-pid', 'no-such-program')).rejects.toThrow('could not be measured')
  })

  /** Measures one cell with its own temporary folder, in which nothing may be left. */
  async function apart(way: string, program: string): Promise<Measurement> {
    const before = process.env.TMPDIR
    process.env.TMPDIR = join(base, 'tmp')
    mkdirSync(process.env.TMPDIR, { recursive: true })
    try {
      return (await runApart({ kind: 'cell', way, program, agents: 1 })) as Measurement
    } finally {
      expect(readdirSync(join(base, 'tmp'))).toEqual([])
      expect(cgroupsOfBench()).toEqual([])
      if (before === undefined) delete process.env.TMPDIR
      else process.env.TMPDIR = before
    }
  }
})

describe('leak benchmark: interrupted', () => {
  it('leaves nothing after SIGTERM', async () => {
    const bench = start()
    await waitUntil(() => daemons().length > 0, 30_000, 'a measurement is running')
    bench.kill('SIGTERM')
    await exitOf(bench)
    expect(daemons()).toEqual([])
    expect(cgroupsOfBench(bench.pid)).toEqual([])
    expect(foldersOfBench()).toEqual([])
  })

  // Needs a cgroup: without one, the processes of a killed benchmark cannot be identified.
  it.runIf(process.getuid?.() === 0)('after SIGKILL, the next benchmark ends what is left', async () => {
    const bench = start()
    await waitUntil(() => daemons().length > 0, 30_000, 'a measurement is running')
    bench.kill('SIGKILL')
    await exitOf(bench)
    await exitOf(start('--way', 'sigkill-pid', '--program', 'stopped'))
    expect(daemons()).toEqual([])
    expect(cgroupsOfBench(bench.pid)).toEqual([])
    expect(foldersOfBench()).toEqual([])
  })

  it('is treated as dead only when its process is gone and was in the same pid namespace', async () => {
    const before = process.env.TMPDIR
    process.env.TMPDIR = base
    const [pid, started, namespace] = [process.pid, ownStart(), Number(/\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0]).toString(36)]
    const names = [
      `${pid}-${started}-${namespace}-a`,
      `${pid}-${started}x-${namespace}-b`,
      `${pid}-${started}x-${namespace}x-c`,
      `${pid}-d`,
    ]
    for (const name of names) mkdirSync(join(base, `leaks-${name}`))
    try {
      await endAbandoned()
    } finally {
      if (before === undefined) delete process.env.TMPDIR
      else process.env.TMPDIR = before
    }
    expect(foldersOfBench().map((name) => name.at(-1))).toEqual(expect.arrayContaining(['a', 'c', 'd']))
    expect(foldersOfBench()).toHaveLength(3)
  })

  const ownStart = (): string => Number(seen(process.pid)?.startTime).toString(36)

  function start(...words: readonly string[]): ChildProcess {
    const program = join(root, 'bench', 'leaks', 'main.ts')
    const chosen = words.length > 0 ? words : ['--way', 'sigterm-pid', '--program', 'setsid-daemon']
    return spawn(process.execPath, [program, ...chosen, '--rounds', '1'], { env: { ...process.env, TMPDIR: base }, stdio: 'ignore' })
  }

  const exitOf = (child: ChildProcess): Promise<unknown> => new Promise((resolve) => child.once('exit', resolve))
  const daemons = (): readonly Seen[] => processesWhere(({ command, environ }) => command === 'daemonizes' && environ.includes(base))
  const foldersOfBench = (): readonly string[] => readdirSync(base).filter((name) => name.startsWith('leaks-'))
})

function cgroupsOfBench(pid = process.pid): readonly string[] {
  const own = ownCgroup2()
  return own === undefined ? [] : folders(own).filter((name) => name.startsWith(`bench-leaks-${pid}-`))
}

describe('leak benchmark: results', () => {
  it('a leak in one run of three is not shown as clean', () => {
    const clean = { way: 'w', program: 'p', processesBefore: 1, processesLeft: 0, whatIsLeft: [], cleanMs: 5, verdict: 'true' } as const
    const filesLeft = { count: 0, bytes: 0, names: [] }
    const answer = { isDone: true, words: '', afterMs: 1, processesThen: 2 }
    const { cleanMs: _, ...never } = clean
    const leaky = { ...never, filesLeft, answer, processesLeft: 2, verdict: 'false' } as const
    const runs = [runOf({ ...clean, filesLeft }), runOf(leaky), runOf({ ...clean, filesLeft })]
    expect(summary(runs)).toMatchObject({
      leaked: 1,
      left: 0,
      worstLeft: 2,
      worstCleanMs: Number.POSITIVE_INFINITY,
      said: { false: 1, true: 2 },
    })
  })

  it('a run that never became clean counts as the slowest, also in the median', () => {
    const run = { at: '', left: 0, files: 0, fileBytes: 0, answerMs: 1, words: '', verdict: 'true', what: [] } as const
    const of = (...times: readonly (number | null)[]): string => cleanTime(summary(times.map((cleanMs) => ({ ...run, cleanMs }))))
    expect(of(5, null, null)).toBe('never in 10 s')
    expect(of(5, 7, null)).toBe('7 ms (never in 10 s)')
  })

  it('the colour of a cleanup is that of its worst run', () => {
    const run = { at: '', doneMs: 1, filesThen: 0 }
    const of = (...runs: readonly (readonly [boolean, number])[]): string =>
      baselineColour(runs.map(([saidSuccess, processesThen]) => ({ ...run, saidSuccess, processesThen })))
    expect([of([true, 0], [true, 0]), of([true, 0], [false, 2]), of([true, 0], [true, 0], [true, 1])]).toEqual(['clean', 'told', 'false'])
  })

  const machine: Machine = { system: 'a', cores: 2, memoryGb: 4, network: 'loopback', versions: { Ebb: '1', claude: '2' }, note: 'n' }
  const run = {
    at: '2000-01-01',
    left: 1,
    files: 0,
    fileBytes: 0,
    cleanMs: null,
    answerMs: 1,
    words: '',
    verdict: 'false',
    what: [],
  } as const
  const before = {
    machine,
    cells: [{ way: 'execa', program: 'stopped', runs: [run] }],
    baselines: [],
    missing: [{ what: 'docker', why: 'not there' }],
  }

  it('a further run is added to the earlier ones, which keep their date, their note and the missing components', () => {
    const { note: _, ...now } = machine
    const collection = new Collection({ ...now, versions: { Ebb: '1' } }, before)
    const filesLeft = { count: 0, bytes: 0, names: [] }
    const task = { kind: 'cell', way: 'execa', program: 'stopped', agents: 1 } as const
    collection.add(task, { ...task, processesBefore: 1, processesLeft: 0, whatIsLeft: [], filesLeft, cleanMs: 5, verdict: 'true' })
    const results = collection.results()
    expect(results.cells).toMatchObject([{ runs: [run, { left: 0, at: expect.stringMatching(/^20[^0]/) }] }])
    expect(results).toMatchObject({ machine, missing: before.missing })
  })

  it('a run of other versions or of another machine is not added', () => {
    const others = { ...machine, network: 'shared', versions: { Ebb: '2' } } as const
    expect(() => new Collection(others, before)).toThrow('another network (loopback, now shared), Ebb (1, now 2); run everything anew')
  })

  it('docs/leak-benchmark.md matches the results', () => {
    const results = readResults()
    if (!results) throw new Error('The results are missing; run "npm run bench:leaks".')
    expect(readFileSync(join(root, 'docs', 'leak-benchmark.md'), 'utf8')).toBe(documentOf(results))
  })
})
