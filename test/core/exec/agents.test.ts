import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ebb, startEbb, temporaryHome } from '../../support/home.ts'
import { leftInHome } from '../../support/ledger-file.ts'
import { waitUntil } from '../../support/world.ts'

/** `ebb exec` around the program of an agent: it has a temp folder as an agent has, and what it leaves elsewhere goes. */

interface Scene {
  readonly home: string
  readonly temp: string
  /** Of the user: where the program has its configuration. */
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
  it('has a temp folder of its own, by its name or by its path, and nothing of it is left', async () => {
    const at = scene()
    const path = at.program(name, `echo x >"$TMPDIR/file"; ${snapshot}; echo "$TMPDIR"; exit 7`)
    for (const word of [name, path]) {
      const ended = await ebb(['exec', '--', word], { home: at.home, env: at.env })
      expect(ended).toMatchObject({ code: 7, stderr: '' })
      expect(ended.stdout.toString('utf8')).toMatch(new RegExp(`^${at.temp}/ebb-[\\w-]{22}\n$`))
      if (name !== 'claude') continue
      expect(leftBy(at)).toEqual([])
    }
    expect(readdirSync(at.temp)).toEqual([])
  })
})

it.each(['/nonexistent/folder', 'relative'])(
  'an agent runs where there is no folder for temporary files (%s), and is told so',
  async (TMPDIR) => {
    const at = scene()
    at.program('claude', `${snapshot}; echo "$TMPDIR"; exit 7`)
    const ended = await ebb(['exec', '--', 'claude'], { home: at.home, env: { ...at.env, TMPDIR } })
    expect(ended).toMatchObject({ code: 7, stderr: expect.stringContaining(`${TMPDIR} cannot be written; set TMPDIR`) })
    expect(ended.stdout.toString('utf8')).toBe(`${TMPDIR}\n`)
    expect(leftBy(at)).toEqual([])
  },
)

it('a SIGKILL of ebb leaves both to its sentinel', async () => {
  const at = scene()
  at.program('claude', `echo x >"$TMPDIR/file"; ${snapshot}; echo ready; exec sleep 1000`)
  const run = startEbb(['exec', '--', 'claude'], { home: at.home, env: at.env })
  await run.says('ready')
  expect(leftBy(at)).toHaveLength(3)
  run.signal('SIGKILL')
  await waitUntil(() => leftBy(at), 20_000, 'nothing of it is left')
})

it('any other command is given nothing: its environment is ours, and no folder is made', async () => {
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
