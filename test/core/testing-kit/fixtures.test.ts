import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { root, startEbb, temporaryHome } from '../../support/home.ts'
import { playwright, type UserProject, userProject, vitest } from '../../support/user-project.ts'

/** Tests `useEbb()` and the `ebb` fixture with real runners, in projects of their own, as users have them. */

interface Result {
  readonly title: string
  readonly isPassed: boolean
  /** All error messages of the test. */
  readonly said: string
}

const suite = (project: UserProject, fixture: string, name = fixture): void =>
  project.write(name, readFileSync(join(root, 'test', 'fixtures', fixture), 'utf8'))

/** The folder in which the throw-away servers of the run have their homes. */
function temporaryFolder(project: UserProject): string {
  const folder = join(project.folder, 'tmp')
  mkdirSync(folder)
  return folder
}

async function runVitest(project: UserProject, words: readonly string[], env: NodeJS.ProcessEnv): Promise<readonly Result[]> {
  const ran = await project.run([vitest, 'run', '--reporter=json', '--outputFile=results.json', '--testTimeout=60000', ...words], env)
  const { testResults } = readResults<{
    testResults: { message: string; assertionResults: { title: string; status: string; failureMessages: string[] }[] }[]
  }>(project, ran)
  expect(testResults.map(({ message }) => message)).toEqual(testResults.map(() => ''))
  return testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .map(({ title, status, failureMessages }) => ({ title, isPassed: status === 'passed', said: failureMessages.join('\n') }))
}

interface PlaywrightSuite {
  readonly suites?: readonly PlaywrightSuite[]
  readonly specs: readonly { title: string; ok: boolean; tests: { results: { errors: { message: string }[] }[] }[] }[]
}

const specsOf = ({ suites = [], specs }: PlaywrightSuite): PlaywrightSuite['specs'] => [...specs, ...suites.flatMap(specsOf)]

async function runPlaywright(project: UserProject, words: readonly string[], env: NodeJS.ProcessEnv): Promise<readonly Result[]> {
  const output = { PLAYWRIGHT_JSON_OUTPUT_NAME: 'results.json' }
  const ran = await project.run([playwright, 'test', '--reporter=json', ...words], { ...env, ...output })
  const { suites, errors } = readResults<{ suites: PlaywrightSuite[]; errors: unknown[] }>(project, ran)
  expect(errors).toEqual([])
  return suites.flatMap(specsOf).map(({ title, ok, tests }) => ({
    title,
    isPassed: ok,
    said: tests.flatMap(({ results }) => results.flatMap(({ errors }) => errors.map(({ message }) => message))).join('\n'),
  }))
}

function readResults<T>(project: UserProject, ran: { stdout: string; stderr: string }): T {
  const file = join(project.folder, 'results.json')
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as T
  } catch (error) {
    throw new Error(`The runner wrote no results:\n${ran.stdout}${ran.stderr}`, { cause: error })
  }
}

const passed = (results: readonly Result[]): readonly string[] => results.filter(({ isPassed }) => isPassed).map(({ title }) => title)
const said = (results: readonly Result[]): Record<string, string> =>
  Object.fromEntries(results.filter(({ isPassed }) => !isPassed).map((result) => [result.title, result.said]))

/** Matches the error of a test that leaked one agent. Between fork and exec, the child of the agent has the name of the shell. */
const leakedAgent =
  /This test leaked: agent [0-9a-f-]{36} \(command, running\); process \d+ \(sh\)(; process \d+ \((?:sh|sleep)\))?\. It is cleaned up now\. .*"await ebb\.cleanup\(\)"/

describe('useEbb in Vitest', () => {
  it('gives every test its own namespace, and fails a test that leaked with the names of what is left', async () => {
    const project = userProject()
    const TMPDIR = temporaryFolder(project)
    suite(project, 'leaks-an-agent.ts')
    suite(project, 'vitest-suite.ts', 'a.test.ts')
    suite(project, 'vitest-suite-that-may-leak.ts', 'b.test.ts')
    const results = await runVitest(project, [], { TMPDIR })
    expect(passed(results).toSorted()).toEqual([
      'finds nothing of the leak before it, in a namespace of its own',
      'has no handle outside of a test',
      'have ended their things before the look',
      'is clean after it',
      'launches, resets and verifies',
      'leaves the row of an agent that has ended',
      'may leak',
    ])
    expect(said(results)).toEqual({
      'leaks an agent': expect.stringMatching(leakedAgent),
      'leaks a subscription': expect.stringMatching(/This test leaked: 1 active subscription\. .*useEbb\(\{ leaks: 'clean' \}\)/),
      'fails by itself, and leaks': expect.stringMatching(/expected 'the answer' to be 'another one'[\s\S]*This test leaked: agent/),
      'is concurrent': expect.stringMatching(/remove "concurrent"/),
    })
    expect(readdirSync(TMPDIR).filter((name) => name.startsWith('ebb-testing-'))).toEqual([])
  })
})

describe('the ebb fixture in Playwright', () => {
  // This test uses CommonJS. The examples of the documents cover a project with ES modules.
  it('gives every test its own namespace, and fails a test that leaked, in a CommonJS project', async () => {
    const project = userProject({})
    const TMPDIR = temporaryFolder(project)
    suite(project, 'leaks-an-agent.ts')
    suite(project, 'playwright-suite.ts', 'a.spec.ts')
    const results = await runPlaywright(project, ['--workers=1'], { TMPDIR })
    expect(passed(results).toSorted()).toEqual([
      'is clean after it',
      'launches, resets and verifies',
      'leaves a subscription to a fixture of its own',
      'may leak',
    ])
    expect(said(results)).toEqual({
      'leaks an agent': expect.stringMatching(leakedAgent),
      'fails by itself, and leaks': expect.stringMatching(
        /another one[\s\S]*This test leaked: agent .*test\.use\(\{ ebbLeaks: 'clean' \}\)/,
      ),
    })
    expect(readdirSync(TMPDIR).filter((name) => name.startsWith('ebb-testing-'))).toEqual([])
  })
})

describe('testing kit: a running server without test endpoints', () => {
  const runners = {
    vitest: (project: UserProject, env: NodeJS.ProcessEnv) => runVitest(project, ['--fileParallelism', '--maxWorkers=2'], env),
    playwright: (project: UserProject, env: NodeJS.ProcessEnv) => runPlaywright(project, ['--workers=2'], env),
  }

  it.each(['vitest', 'playwright'] as const)('workers of %s do not remove the agents of other workers', async (runner) => {
    const project = userProject()
    suite(project, 'two-workers.ts')
    suite(project, 'leaks-an-agent.ts')
    for (const name of ['a', 'b']) suite(project, `${runner}-worker.ts`, `${name}.spec.ts`)
    const server = startEbb(['serve', '--port', '0', '--json'], { home: temporaryHome(), deadlineMs: 60_000 })
    try {
      await server.says('\n')
      const { url } = JSON.parse(server.output()) as { url: string }
      const results = await runners[runner](project, { EBB_URL: url })
      const works = { title: 'works beside another', isPassed: true, said: '' }
      const leaks = { title: 'leaks', isPassed: false, said: expect.stringMatching(leakedAgent) }
      expect(results).toEqual([works, leaks, works, leaks])
      expect(await (await fetch(`${url}/api/cleanup/status`)).json()).toMatchObject({ isClean: true })
    } finally {
      server.signal('SIGTERM')
    }
    expect((await server.ended).code).toBe(0)
  })
})
