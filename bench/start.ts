import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Row, sideBySide, timed } from './measure.ts'
import { launch, withSupervisor } from './supervisor.ts'

const run = (program: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> =>
  timed(
    () =>
      new Promise<void>((resolve, reject) => {
        const child = spawn(program, args, { stdio: 'ignore', env })
        child.once('error', reject)
        child.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(`${program} ended with ${code}`))))
      }),
  )

/** Measures the wall time of `ebb exec` around an empty command. The baseline is the start of an empty Node program. */
export async function benchCommandLine(): Promise<readonly Row[]> {
  const home = mkdtempSync(join(tmpdir(), 'ebb-bench-'))
  const env = { ...process.env, EBB_HOME: home }
  const ebb = join(import.meta.dirname, '..', 'bin', 'ebb')
  try {
    await run(ebb, ['exec', '--', 'true'], env) // The first start compiles the code, keeps it, and creates the home.
    const { baseline, ebb: ours } = await sideBySide(
      25,
      () => run(process.execPath, ['-e', '0'], env),
      () => run(ebb, ['exec', '--', 'true'], env),
    )
    return [{ name: 'ebb exec -- true', baseline, ebb: ours, unit: 'ms', claim: 'at most 2.4 × node -e 0', kept: ours <= 2.4 * baseline }]
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
}

/**
 * Measures a launch in a running supervisor: its intent is recorded, the process is spawned, and the resource is recorded as held. The
 * baseline is a bare spawn.
 */
export async function benchLaunch(): Promise<readonly Row[]> {
  return await withSupervisor(async (supervisor) => {
    const { baseline, ebb } = await sideBySide(
      30,
      async () => {
        let child: ReturnType<typeof spawn> | undefined
        const ms = await timed(
          () =>
            new Promise<void>((resolve) => {
              child = spawn('sleep', ['1000'], { stdio: 'ignore' })
              child.once('spawn', () => resolve())
            }),
        )
        child?.kill('SIGKILL')
        return ms
      },
      async () => {
        let scopeId = ''
        const ms = await timed(async () => {
          scopeId = (await launch(supervisor, ['sleep', '1000'])).scope.id
        })
        await supervisor.engine.close(scopeId, { trigger: 'deleted', force: true })
        return ms
      },
    )
    return [
      {
        name: 'launch: intent, spawn, held',
        baseline,
        ebb,
        unit: 'ms',
        claim: 'at most 8 ms more than a bare spawn',
        kept: ebb - baseline <= 8,
      },
    ]
  })
}
