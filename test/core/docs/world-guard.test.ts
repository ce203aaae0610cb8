import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { nodeProgram, root, temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import { cgroupsOf } from '../../support/world.ts'

/** Tests the guard, `needs` and the skip reporter of the test suite, each in a separate run of Vitest. */

interface Results {
  readonly output: string
  readonly tests: readonly { readonly title: string; readonly status: string; readonly message: string }[]
  /** The error messages of the spec file as a whole, which belong to no single test. */
  readonly message: string
}

async function run(spec: string, env: NodeJS.ProcessEnv): Promise<Results> {
  const file = join(temporaryHome(), 'results.json')
  const words = ['--no-warnings', join(root, 'test/fixtures/runs-a-spec.ts'), spec, file]
  const output = await new Promise<string>((resolve) => {
    // The run of Vitest exits with an error on purpose. Its results are read from `results.json`.
    execFile(nodeProgram, words, { cwd: root, env: { ...process.env, EBB_TEST_PATIENCE_MS: '300', ...env } }, (_error, stdout) =>
      resolve(stdout),
    )
  })
  const { testResults } = JSON.parse(readFileSync(file, 'utf8')) as {
    testResults: { message: string; assertionResults: { title: string; status: string; failureMessages: string[] }[] }[]
  }
  const tests = testResults.flatMap(({ assertionResults }) => assertionResults)
  return {
    output,
    tests: tests.map(({ title, status, failureMessages }) => ({ title, status, message: failureMessages.join('\n') })),
    message: testResults.map(({ message }) => message).join('\n'),
  }
}

describe('world guard', () => {
  needs('cgroup')

  it('fails a test that leaves something, names what is left, and removes it', async () => {
    const { tests, message } = await run('leaves-things', {})
    const said = Object.fromEntries(tests.map((test) => [test.title, test.message]))
    expect(tests.map(({ title, status }) => `${status}: ${title}`)).toEqual([
      'passed: leaves nothing',
      'failed: leaves a process',
      'failed: leaves a process that knows only its home',
      'failed: leaves a cgroup',
      'failed: leaves an open intent',
      'passed: leaves a folder, which is seen when the file ends',
    ])
    expect(said['leaves a process']).toMatch(/process \d+ S \/bin\/sleep 60/)
    expect(said['leaves a process that knows only its home']).toMatch(/process \d+ S \/bin\/sleep 60/)
    expect(said['leaves a cgroup']).toMatch(/cgroup .*\/ebb-feedc0ffee00/)
    expect(said['leaves an open intent']).toMatch(/intent held file forgotten/)
    expect(message).toMatch(/Temporary folders were left behind: .*ebb-test-/)
    expect(cgroupsOf('feedc0ffee00')).toEqual([])
  })
})

describe('needs: a missing component', () => {
  function withoutTmux(): string {
    const folder = join(temporaryHome(), 'bin')
    mkdirSync(folder)
    symlinkSync('/bin/sh', join(folder, 'sh'))
    return folder
  }

  it('skips the suite, and lists the reason at the end', async () => {
    const { tests, output } = await run('needs-a-component', { PATH: withoutTmux(), CI: '' })
    expect(tests).toMatchObject([{ status: 'skipped' }])
    expect(output).toMatch(
      /Skipped tests, by reason:\n {2}needs tmux: tmux is not installed\n {4}test\/fixtures\/needs-a-component\.spec\.ts > a suite that needs tmux/,
    )
  })

  it('fails the suite under CI', async () => {
    const { tests } = await run('needs-a-component', { PATH: withoutTmux(), CI: 'true' })
    expect(tests).toMatchObject([{ status: 'failed' }])
    expect(tests[0]?.message).toMatch(/This suite needs tmux: tmux is not installed/)
  })
})
