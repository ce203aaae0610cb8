import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { TracePlace } from '../../../src/core/ports/provider.ts'
import { realEffects } from '../../../src/host/effects.ts'
import { ToolLeftoversKind } from '../../../src/kinds/tool-leftovers/kind.ts'
import { findToolLeftovers } from '../../../src/kinds/tool-leftovers/search.ts'
import type { ToolLeftoversSpec } from '../../../src/kinds/tool-leftovers/sighted.ts'
import { claudeCode } from '../../../src/providers/claude-code.ts'
import { codex } from '../../../src/providers/codex.ts'
import { Crash, Fuse, fused } from '../../support/fuse.ts'
import { temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import { ctx } from '../../support/temp-folder.ts'

/** Files that a killed agent program left in the folders of its user. Only files with the mark of the agent are removed. */

const mark = '/tmp/ebb-Dx4tPEtaRniavN7wEjRWeA/'
const signal = new AbortController().signal
const nobody = 65_534

function specOf(places: readonly TracePlace[], more: Partial<ToolLeftoversSpec> = {}): ToolLeftoversSpec {
  return { places, marks: [mark, '/0f1e2d3c-4b5a-4678-9abc-def012345678.'], sinceMs: Date.now() - 86_400_000, ...more }
}

/** The configuration folder of claude in a new home, with a conversation of the user. */
function claudeHome(): {
  readonly folder: string
  readonly spec: ToolLeftoversSpec
  readonly snapshots: string
  readonly sessions: string
} {
  const home = temporaryHome()
  const folder = join(home, '.claude')
  for (const name of ['shell-snapshots', 'sessions', 'projects/p']) mkdirSync(join(folder, name), { recursive: true })
  writeFileSync(join(folder, 'projects/p/0f1e.jsonl'), `{"cwd":"${mark}"}`)
  const spec = specOf(claudeCode.leaves?.({ HOME: home }) ?? [])
  return { folder, spec, snapshots: join(folder, 'shell-snapshots'), sessions: join(folder, 'sessions') }
}

const snapshot = (path = '/usr/bin:/bin'): string => `# Snapshot file\nalias x='y'\nexport PATH=${path}\n`
const session = (socket: string, start = '2239238'): string =>
  JSON.stringify({ pid: 18, procStart: start, pidDomain: 'linux:a:pid:[1]', messagingSocketPath: socket })
const key = (start = '2239238'): string => JSON.stringify({ peerToken: 'x', procStart: start, pidDomain: 'linux:a:pid:[1]' })

async function release(spec: ToolLeftoversSpec): Promise<string> {
  const kind = new ToolLeftoversKind(realEffects)
  await kind.release(spec, 'kill', ctx)
  return (await kind.observe(spec, ctx)).is
}

describe('leftovers of claude', () => {
  it('are removed when they contain the mark, and all other files stay (G10)', async () => {
    const { folder, spec, snapshots, sessions } = claudeHome()
    writeFileSync(join(snapshots, 'snapshot-bash-1-ours.sh'), snapshot(`/usr/bin:${mark}bin`))
    writeFileSync(join(snapshots, 'snapshot-bash-2-theirs.sh'), snapshot())
    writeFileSync(join(snapshots, 'notes.txt'), mark)
    writeFileSync(join(sessions, '18.json'), session(`${mark}cc-socks/18.sock`))
    writeFileSync(join(sessions, `18.${'a1'.repeat(32)}.key`), key())
    // The session key of another process with pid 18, which runs in another pid namespace or later.
    writeFileSync(join(sessions, `18.${'b2'.repeat(32)}.key`), key('4711'))
    writeFileSync(join(sessions, '181.json'), session('/tmp/cc-socks/181.sock'))
    writeFileSync(join(sessions, `181.${'a1'.repeat(32)}.key`), key())
    expect((await new ToolLeftoversKind(realEffects).observe(spec, ctx)).is).toBe('present')
    expect(await release(spec)).toBe('absent')
    expect(readdirSync(snapshots).sort()).toEqual(['notes.txt', 'snapshot-bash-2-theirs.sh'])
    expect(readdirSync(sessions).sort()).toEqual([`18.${'b2'.repeat(32)}.key`, `181.${'a1'.repeat(32)}.key`, '181.json'])
    expect(readdirSync(join(folder, 'projects/p'))).toEqual(['0f1e.jsonl'])
  })

  it('are searched in the folders that its environment names', () => {
    const folders = (env: Record<string, string>): unknown => claudeCode.leaves?.(env).map(({ folder }) => folder)
    expect(folders({ HOME: '/home/a' })).toEqual(['/home/a/.claude/shell-snapshots', '/home/a/.claude/sessions'])
    expect(folders({ HOME: '/home/a', CLAUDE_CONFIG_DIR: '/c' })).toEqual(['/c/shell-snapshots', '/c/sessions'])
    expect([folders({}), folders({ HOME: 'relative' })]).toEqual([[], []])
  })

  it.each(['before', 'after'] as const)('are removed with their related files, also after a crash %s any effect', async (when) => {
    for (let point = 1, isOver = false; !isOver; point++) {
      const { spec, sessions } = claudeHome()
      writeFileSync(join(sessions, '18.json'), session(`${mark}cc-socks/18.sock`))
      writeFileSync(join(sessions, `18.${'a1'.repeat(32)}.key`), key())
      const fuse = new Fuse(point, when)
      await new ToolLeftoversKind(fused(fuse)).release(spec, 'kill', ctx).catch((error: unknown) => {
        if (!(error instanceof Crash)) throw error
      })
      isOver = !fuse.hasBlown
      expect(await release(spec)).toBe('absent')
      expect(readdirSync(sessions)).toEqual([])
    }
  })
})

it('tool leftovers: a file that another program wrote since the search stays (G10)', async () => {
  const { spec, sessions } = claudeHome()
  const file = join(sessions, '18.json')
  writeFileSync(file, session(`${mark}cc-socks/18.sock`))
  writeFileSync(join(sessions, `18.${'a1'.repeat(32)}.key`), key())
  // The session key is removed before the session file. At that moment a new process with the same pid writes its own session file.
  const unlink = (path: string): void => {
    realEffects.unlink(path)
    if (path.endsWith('.key')) writeFileSync(file, session('/tmp/cc-socks/18.sock'))
  }
  await new ToolLeftoversKind({ ...realEffects, unlink }).release(spec, 'kill', ctx)
  expect(readdirSync(sessions)).toEqual(['18.json'])
})

describe('leftovers of codex', () => {
  it('are recognized by the environment tag in them, whatever their TMPDIR', async () => {
    const home = temporaryHome()
    const folder = join(home, '.codex/shell_snapshots')
    mkdirSync(folder, { recursive: true })
    writeFileSync(
      join(folder, 'a.1.sh'),
      'declare -x EBB_SCOPE="a1b2/i1/0f1e2d3c-4b5a-4678-9abc-def012345678.3"\ndeclare -x TMPDIR="/mine"\n',
    )
    writeFileSync(join(folder, 'b.1.sh'), 'declare -x EBB_SCOPE="a1b2/i1/1f1e2d3c-4b5a-4678-9abc-def012345678.3"\n')
    expect(await release(specOf(codex.leaves?.({ HOME: home }) ?? []))).toBe('absent')
    expect(readdirSync(folder)).toEqual(['b.1.sh'])
    expect(codex.leaves?.({ HOME: home, CODEX_HOME: '/x' })).toMatchObject([{ folder: '/x/shell_snapshots' }])
    expect(codex.leaves?.({})).toEqual([])
  })
})

describe('findToolLeftovers', () => {
  const place = (folder: string): ToolLeftoversSpec => specOf([{ folder, name: '.+\\.sh' }])

  it('follows no symlink, does not block on a pipe, and skips folders and files older than the agent', async () => {
    const [folder, theirs] = [temporaryHome(), temporaryHome()]
    writeFileSync(join(theirs, 'file'), mark)
    symlinkSync(join(theirs, 'file'), join(folder, 'link.sh'))
    symlinkSync(theirs, join(folder, 'folder-link.sh'))
    mkdirSync(join(folder, 'folder.sh'))
    execFileSync('mkfifo', [join(folder, 'pipe.sh')])
    writeFileSync(join(folder, 'old.sh'), mark)
    utimesSync(join(folder, 'old.sh'), 1, 1)
    expect(await findToolLeftovers(place(folder), signal)).toEqual([])
    expect(existsSync(join(theirs, 'file'))).toBe(true)
  })

  it('finds the mark at any position, and reads only a part of a huge file', async () => {
    const folder = temporaryHome()
    for (const before of [0, 65_530, 65_536, 1_000_000]) writeFileSync(join(folder, `${before}.sh`), `${'x'.repeat(before)}${mark}`)
    writeFileSync(join(folder, 'huge.sh'), '')
    truncateSync(join(folder, 'huge.sh'), 2 ** 40)
    // `claude` writes the mark in the last line of a snapshot.
    writeFileSync(join(folder, 'end.sh'), '')
    truncateSync(join(folder, 'end.sh'), 2 ** 30)
    appendFileSync(join(folder, 'end.sh'), snapshot(`${mark}bin`))
    const found = await findToolLeftovers(place(folder), signal)
    expect(found.map(({ path }) => path).sort()).toEqual(
      ['0.sh', '1000000.sh', '65530.sh', '65536.sh', 'end.sh'].map((name) => join(folder, name)),
    )
  })

  it('finds one file among thousands', async () => {
    const folder = temporaryHome()
    execFileSync('sh', ['-c', 'cd "$0" && seq -f "%g.sh" 5000 | xargs touch', folder])
    writeFileSync(join(folder, 'ours.sh'), mark)
    expect(await findToolLeftovers(place(folder), signal)).toMatchObject([{ path: join(folder, 'ours.sh'), kin: [] }])
  })

  it('finds nothing in a missing folder, and stops when its signal aborts', async () => {
    expect(await findToolLeftovers(place('/nonexistent/folder'), signal)).toEqual([])
    const folder = temporaryHome()
    writeFileSync(join(folder, 'one.sh'), mark)
    await expect(findToolLeftovers(place(folder), AbortSignal.abort(new Error('over')))).rejects.toThrow('over')
  })

  it('throws for a folder that cannot be read (G4)', async () => {
    const loop = join(temporaryHome(), 'loop')
    symlinkSync(loop, loop)
    await expect(findToolLeftovers(place(loop), signal)).rejects.toThrow('make it readable, and Ebb checks it again')
  })

  describe('as root', () => {
    needs('root')

    it('ignores files of other users', async () => {
      const folder = temporaryHome()
      writeFileSync(join(folder, 'theirs.sh'), mark)
      chownSync(join(folder, 'theirs.sh'), nobody, nobody)
      chmodSync(join(folder, 'theirs.sh'), 0o666)
      expect(await findToolLeftovers(place(folder), signal)).toEqual([])
    })
  })
})
