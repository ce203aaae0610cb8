import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ebb, startEbb, temporaryHome } from '../../support/home.ts'
import { leftInHome } from '../../support/ledger-file.ts'
import { waitUntil } from '../../support/world.ts'

/** `ebb exec` with the program of an agent: it gets a temp folder like an agent, and its tool leftovers are removed. */

interface Scene {
  readonly home: string
  readonly temp: string
  /** The home folder of the user, with the configuration of the program. */
  readonly user: string
  readonly env: Record<string, string>
  program(name: string, script: string): string
}

function scene(): Scene {
  const [home, temp, user, bin] = [temporaryHome(), temporaryHome(), temporaryHome(), temporaryHome()]
  mkdirSync(join(user, '.claude/shell-snapshots'), { recursive: true })
  writeFileSync(join(user, '.claude/shell-snapshots/snapshot-bash-1-theirs.sh'), 'export PATH=/usr/bin\n')
  return {
    home,
    temp,
    user,
    env: { TMPDIR: temp, HOME: user, PATH: `${bin}:${process.env.PATH}` },
    program: (name, script) => {
      writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`)
      chmodSync(join(bin, name), 0o755)
      return join(bin, name)
    },
  }
}

const snapshot = 'echo "export PATH=$PATH" >"$HOME/.claude/shell-snapshots/snapshot-bash-2-ours.sh"'
const leftBy = ({ home, temp, user }: Scene): readonly string[] => [
  ...readdirSync(temp),
  ...leftInHome(home),
  ...readdirSync(join(user, '.claude/shell-snapshots')).filter((name) => !name.includes('theirs')),
]

describe.each(['claude', 'codex', 'gemini', 'opencode'])('ebb exec -- %s', (name) => {
  it('has its own temp folder, called by name or by path, and leaves nothing', async () => {
    const at = scene()
    const path = at.program(name, `echo x >"$TMPDIR/file"; ${snapshot}; echo "$TMPDIR"; exit 7`)
    for (const program of [name, path]) {
      const ended = await ebb(['exec', '--', program], { home: at.home, env: at.env })
      expect(ended).toMatchObject({ code: 7, stderr: '' })
      expect(ended.stdout.toString('utf8')).toMatch(new RegExp(`^${at.temp}/ebb-[\\w-]{22}\n$`))
      if (name !== 'claude') continue
      expect(leftBy(at)).toEqual([])
    }
    expect(readdirSync(at.temp)).toEqual([])
  })
})

it.each(['/nonexistent/folder', 'relative'])('ebb exec runs an agent with an unusable TMPDIR (%s), and warns', async (TMPDIR) => {
  const at = scene()
  at.program('claude', `${snapshot}; echo "$TMPDIR"; exit 7`)
  const ended = await ebb(['exec', '--', 'claude'], { home: at.home, env: { ...at.env, TMPDIR } })
  expect(ended).toMatchObject({ code: 7, stderr: expect.stringContaining(`${TMPDIR} cannot be written; set TMPDIR`) })
  expect(ended.stdout.toString('utf8')).toBe(`${TMPDIR}\n`)
  expect(leftBy(at)).toEqual([])
})

it('ebb exec: after a SIGKILL the sentinel removes temp folder and leftovers', async () => {
  const at = scene()
  at.program('claude', `echo x >"$TMPDIR/file"; ${snapshot}; echo ready; exec sleep 1000`)
  const run = startEbb(['exec', '--', 'claude'], { home: at.home, env: at.env })
  await run.says('ready')
  expect(leftBy(at)).toHaveLength(3)
  run.signal('SIGKILL')
  await waitUntil(() => leftBy(at), 20_000, 'temp folder and leftovers are gone')
})

it('ebb exec changes no variable and makes no temp folder for a command that is no agent', async () => {
  const at = scene()
  const ended = await ebb(['exec', '--', 'sh', '-c', `echo "$TMPDIR $PATH"; ls -A "$TMPDIR"; ls -A "${join(at.home, 'run')}"`], {
    home: at.home,
    env: at.env,
    report: join(at.user, 'report.json'),
  })
  expect(ended.stdout.toString('utf8')).toBe(`${at.temp} ${at.env.PATH}\n`)
  expect(ended.report?.resources.map(({ kind }) => kind)).toEqual(['process-tree'])
  expect(existsSync(join(at.user, '.claude/shell-snapshots/snapshot-bash-1-theirs.sh'))).toBe(true)
})
