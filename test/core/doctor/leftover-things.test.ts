import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Leftover } from '../../../src/doctor/judgement/leftover.ts'
import { Garden } from '../../support/leftovers.ts'
import { needs } from '../../support/real.ts'
import { seen, waitUntil } from '../../support/world.ts'
import { found, ofPid, open } from './looks.ts'

/** tmux sessions, files and worktrees that agents have left, and similar ones that are in use. */

const uid = process.getuid?.() ?? 0
const long = new Date(Date.now() - 86_400_000)

async function fixed(garden: Garden): Promise<readonly string[]> {
  const leftovers = open(garden)
  const ended = await leftovers.end((await leftovers.find()).leftovers)
  return ended.map(({ outcome }) => outcome)
}

const whats = (all: readonly Leftover[]): readonly string[] =>
  all.map(({ what, sure }) => `${sure}: ${what.replace(/ \(\$.*$/, '')}`).toSorted()

describe('doctor: a tmux session', () => {
  needs('tmux', 'gcc')

  let garden: Garden
  let socket: string
  const tmux = (...words: readonly string[]): string =>
    execFileSync('tmux', ['-S', socket, '-f', '/dev/null', ...words], { encoding: 'utf8', env: garden.environment() })
  const names = (): readonly string[] => tmux('list-sessions', '-F', '#{session_name}').trim().split('\n').toSorted()

  beforeEach(() => {
    garden = new Garden()
    const folder = join(garden.folder, `tmux-${uid}`)
    mkdirSync(folder, { mode: 0o700 })
    socket = join(folder, 'default')
    // This session keeps the tmux server alive. With remain-on-exit, panes stay when their program has ended.
    tmux('new-session', '-d', '-s', 'stays', 'sleep 10000')
    tmux('set-option', '-g', 'remain-on-exit', 'on')
  })

  afterEach(async () => {
    tmux('kill-server')
    await garden[Symbol.asyncDispose]()
  })

  it('is found when its agent has ended, and is killed by its id', async () => {
    garden.script('claude', 'exit 0')
    tmux('new-session', '-d', '-s', 'work', `${join(garden.folder, 'claude')} -p "Fix it"`)
    await waitUntil(() => tmux('list-panes', '-a', '-F', '#{pane_dead}').includes('1'), 20_000, 'it has ended')
    const all = await found(garden)
    expect(whats(all)).toEqual(['sure: tmux session work'])
    expect(await fixed(garden)).toEqual(['gone'])
    expect(names()).toEqual(['stays'])
  })

  it('is perhaps in use when it only has the name of an agent session and a new idle shell', async () => {
    for (const name of ['agent_notes', 'agent_a-120000-1a2b3c', 'claude-2026', 'claude-myproject', 'claude', 'my-work'])
      tmux('new-session', '-d', '-s', name, 'exec sh -i')
    await waitUntil(async () => (await found(garden)).length === 5, 20_000, 'the shells are idle')
    const all = await found(garden)
    expect(whats(all)).toEqual([
      'perhaps: tmux session agent_a-120000-1a2b3c',
      'perhaps: tmux session agent_notes',
      'perhaps: tmux session claude',
      'perhaps: tmux session claude-2026',
      'perhaps: tmux session claude-myproject',
    ])
    expect(all[0]?.fix).toContain('kill-session')
    expect(await fixed(garden)).toEqual([])
    expect(names()).toHaveLength(7)
  })

  it('is likely, and is killed, when it was started with an agent and became an idle shell', async () => {
    garden.script('claude', 'exit 0')
    tmux('new-session', '-d', '-s', 'work', `${join(garden.folder, 'claude')} -p "Fix it"; exec sh -i`)
    await waitUntil(async () => (await found(garden)).length === 1, 20_000, 'the shell is idle')
    expect(whats(await found(garden))).toEqual(['likely: tmux session work'])
    expect(await fixed(garden)).toEqual(['gone'])
    expect(names()).toEqual(['stays'])
  })

  it('is not found when a program runs in it, a client is attached, or it belongs to an Ebb', async () => {
    tmux('new-session', '-d', '-s', 'agent_busy', `sh -i -c ':'; ${garden.program('vim')} notes.md`)
    tmux('new-session', '-d', '-s', 'agent_lives', garden.program('claude'))
    tmux('new-session', '-d', '-s', 'agent_ebbs', 'exec sh -i', ';', 'set-option', '-t', '=agent_ebbs:', '@ebb', 'a/b/c.1')
    tmux('new-session', '-d', '-s', 'agent_seen', 'exec sh -i')
    const client = spawn('script', ['-qec', `tmux -S ${socket} attach -t agent_seen`, '/dev/null'], {
      env: garden.environment({ TERM: 'xterm' }),
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    await waitUntil(
      () => /^agent_seen 1$/m.test(tmux('list-sessions', '-F', '#{session_name} #{session_attached}')),
      20_000,
      'a client is attached',
    )
    expect(await found(garden)).toEqual([])
    client.kill('SIGKILL')
    await waitUntil(async () => (await found(garden)).length === 1, 20_000, 'no client is attached')
  })

  it('is not killed when a client attaches after it was shown', async () => {
    garden.script('claude', 'exit 0')
    tmux('new-session', '-d', '-s', 'agent_x', `${join(garden.folder, 'claude')}; exec sh -i`)
    await waitUntil(async () => (await found(garden)).length === 1, 20_000, 'the shell is idle')
    const leftovers = open(garden)
    const { leftovers: shown } = await leftovers.find()
    const client = spawn('script', ['-qec', `tmux -S ${socket} attach -t agent_x`, '/dev/null'], {
      env: garden.environment({ TERM: 'xterm' }),
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    await waitUntil(
      () => /^agent_x 1$/m.test(tmux('list-sessions', '-F', '#{session_name} #{session_attached}')),
      20_000,
      'a client is attached',
    )
    expect(await leftovers.end(shown)).toMatchObject([{ outcome: 'changed' }])
    expect(names()).toContain('agent_x')
    client.kill('SIGKILL')
  })
})

describe('doctor: files of agents', () => {
  needs('gcc')

  function file(path: string, content = 'x'.repeat(10_000)): string {
    mkdirSync(join(path, '..'), { recursive: true })
    writeFileSync(path, content)
    utimesSync(path, long, long)
    return path
  }

  function aged(folder: string): string {
    utimesSync(folder, long, long)
    return folder
  }

  it('are found with their size, and removed, when no process needs them', async () => {
    await using garden = new Garden()
    const { folder } = garden
    file(join(folder, 'gemini-shell-abc', 'deep', 'output'))
    file(join(folder, `claude-${uid}`, '-home-me', 'session', 'tasks', 'b1.output'))
    file(join(folder, 'claude-12ab-cwd'))
    file(join(folder, '.claude', 'shell-snapshots', 'snapshot-bash-1-a.sh'))
    file(join(folder, '.claude', 'shell-snapshots', 'mine.txt'))
    file(join(folder, '.codex', 'shell_snapshots', 'a.sh'))
    const all = await found(garden)
    expect(all.map(({ paths }) => paths.map((path) => path.slice(folder.length + 1)))).toEqual([
      ['gemini-shell-abc'],
      [`claude-${uid}/-home-me/session/tasks`],
      ['claude-12ab-cwd'],
      ['.claude/shell-snapshots/snapshot-bash-1-a.sh'],
      ['.codex/shell_snapshots/a.sh'],
    ])
    expect(all.every(({ sure, sizeBytes }) => sure === 'sure' && sizeBytes >= 10_000)).toBe(true)
    expect(await fixed(garden)).toEqual(['gone', 'gone', 'gone', 'gone', 'gone'])
    expect(existsSync(join(folder, 'gemini-shell-abc'))).toBe(false)
    expect(readdirSync(join(folder, '.claude', 'shell-snapshots'))).toEqual(['mine.txt'])
    expect(existsSync(join(folder, `claude-${uid}`, '-home-me', 'session'))).toBe(true)
  })

  it('are measured and removed when their names are not UTF-8', async () => {
    await using garden = new Garden()
    const shell = join(garden.folder, 'gemini-shell-abc')
    const odd = Buffer.from(`${shell}/\xff`, 'latin1')
    mkdirSync(odd, { recursive: true })
    const output = Buffer.concat([odd, Buffer.from('/na\xefve', 'latin1')])
    writeFileSync(output, 'x'.repeat(50_000))
    const changed = new Date(Date.now() - 60_000)
    for (const path of [odd, shell]) utimesSync(path, long, long)
    utimesSync(output, changed, changed)
    expect(await found(garden)).toMatchObject([{ since: changed.toISOString(), paths: [shell] }])
    expect((await found(garden))[0]?.sizeBytes).toBeGreaterThan(50_000)
    expect(await fixed(garden)).toEqual(['gone'])
    expect(existsSync(shell)).toBe(false)
  })

  it('are not searched for or removed through a symlink', async () => {
    await using garden = new Garden()
    const treasure = file(join(garden.folder, 'home', 'tasks', 'treasure'))
    symlinkSync(join(garden.folder, 'home'), join(garden.folder, 'gemini-shell-link'))
    mkdirSync(join(garden.folder, `claude-${uid}`))
    symlinkSync(join(garden.folder, 'home'), join(garden.folder, `claude-${uid}`, 'project'))
    mkdirSync(join(garden.folder, '.claude', 'shell-snapshots'), { recursive: true })
    symlinkSync(treasure, join(garden.folder, '.claude', 'shell-snapshots', 'snapshot-x.sh'))
    expect(await found(garden)).toEqual([])
    const own = join(garden.folder, 'gemini-shell-own')
    mkdirSync(own)
    symlinkSync(join(garden.folder, 'home'), join(own, 'link'))
    expect(await fixed(garden)).toEqual(['gone'])
    expect(existsSync(treasure)).toBe(true)
  })

  it('are not found while a process has them open or works in them', async () => {
    await using garden = new Garden()
    const output = file(join(garden.folder, 'gemini-shell-open', 'output'))
    const folder = join(garden.folder, 'gemini-shell-cwd')
    mkdirSync(folder)
    for (const one of [folder, join(garden.folder, 'gemini-shell-open')]) aged(one)
    const holder = await garden.orphan(['sh', '-c', `exec 5>>${output}; cd ${folder}; exec ${garden.program('waits')}`], {
      shell: '"$@" </dev/null >/dev/null 2>&1 & echo $!; while [ "$(cat /proc/$!/comm)" != waits ]; do :; done',
    })
    expect(await found(garden)).toEqual([])
    process.kill(holder, 'SIGKILL')
    await waitUntil(() => seen(holder) === undefined, 20_000, 'no process has it open')
    expect(await found(garden)).toHaveLength(2)
  })

  it('are found when they are older than every running agent of the program, and not otherwise', async () => {
    await using garden = new Garden()
    const agent = spawn(garden.program('claude'), { env: garden.environment(), stdio: 'ignore' })
    await waitUntil(() => seen(agent.pid ?? 0)?.command === 'claude', 20_000, 'it runs')
    const snapshots = join(garden.folder, '.claude', 'shell-snapshots')
    const before = file(join(snapshots, 'snapshot-old.sh'))
    writeFileSync(join(snapshots, 'snapshot-new.sh'), '')
    file(join(garden.folder, 'gemini-shell-a', 'x'))
    const all = await found(garden)
    expect(all.flatMap(({ paths }) => paths)).toEqual(expect.arrayContaining([before]))
    expect(all.flatMap(({ paths }) => paths)).not.toContain(join(snapshots, 'snapshot-new.sh'))
  })
})

describe('doctor: files of an agent that will be ended', () => {
  needs('gcc')

  it('are found with it, removed after it, and kept while it runs', async () => {
    await using garden = new Garden()
    const snapshot = join(garden.folder, '.claude', 'shell-snapshots', 'snapshot-bash-1-a.sh')
    mkdirSync(join(snapshot, '..'), { recursive: true })
    const pid = await garden.orphan([garden.program('claude')], { env: { CLAUDECODE: '1' } })
    writeFileSync(snapshot, '')
    const leftovers = open(garden)
    const { leftovers: shown } = await leftovers.find()
    expect(shown).toMatchObject([{ kind: 'agent' }, { kind: 'folder', paths: [snapshot] }])
    // Only the file is chosen for removal. It is kept, because the agent that may need it still runs.
    expect(await leftovers.end(shown.slice(1))).toMatchObject([{ outcome: 'changed' }])
    expect(existsSync(snapshot)).toBe(true)
    expect(await leftovers.end(shown)).toMatchObject([{ outcome: 'gone' }, { outcome: 'gone' }])
    expect([seen(pid), existsSync(snapshot)]).toEqual([undefined, false])
  })

  it('are removable when only an agent of another user is running', async (context) => {
    if (uid !== 0) context.skip()
    await using garden = new Garden()
    const program = garden.program('claude')
    execFileSync('chmod', ['a+rx', garden.folder, program])
    const other = await garden.orphan([program], { through: ['setpriv', '--reuid', '65534', '--clear-groups'] })
    await waitUntil(() => seen(other)?.command === 'claude', 20_000, 'it runs')
    const tool = await garden.orphan([garden.program('dev-server')], { env: { CLAUDECODE: '1' } })
    expect(ofPid(await found(garden), tool)).toMatchObject({ sure: 'sure' })
  })
})

describe('doctor: a worktree', () => {
  needs('gcc')

  it('a worktree of an agent is shown with the command that removes it, and is never removed, clean or not', async () => {
    await using garden = new Garden()
    const git = (...words: readonly string[]): string =>
      execFileSync('git', ['-C', garden.folder, '-c', 'user.name=a', '-c', 'user.email=a@b', ...words], { encoding: 'utf8', stdio: 'pipe' })
    git('init', '-q')
    git('commit', '-q', '--allow-empty', '-m', 'first')
    for (const name of ['clean', 'dirty', 'used', 'gone', "it's"]) git('worktree', 'add', '-q', `.claude/worktrees/${name}`)
    git('worktree', 'add', '-q', 'mine')
    for (const name of ['aside', 'lost']) git('worktree', 'add', '-q', '--detach', `.claude/worktrees/${name}`)
    git('-C', '.claude/worktrees/lost', 'commit', '-q', '--allow-empty', '-m', 'in no branch')
    const at = (name: string): string => join(garden.folder, '.claude', 'worktrees', name)
    writeFileSync(join(at('dirty'), 'work'), '')
    rmSync(at('gone'), { recursive: true })
    const user = spawn(garden.program('waits'), { cwd: at('used'), env: garden.environment(), stdio: 'ignore' })
    await waitUntil(() => seen(user.pid ?? 0)?.command === 'waits', 20_000, 'a process works there')
    const all = (await found(garden)).filter(({ kind }) => kind === 'worktree').toSorted((a, b) => (a.id < b.id ? -1 : 1))
    expect(all.map(({ paths: [path = ''], sure, fixes }) => [path.slice(at('').length + 1), sure, fixes])).toEqual([
      ['aside', 'likely', false],
      ['clean', 'likely', false],
      ['dirty', 'perhaps', false],
      ['gone', 'sure', false],
      ["it's", 'likely', false],
      ['lost', 'perhaps', false],
    ])
    expect(all[5]?.evidence.join(' ')).toContain('1 of its commits is in no branch, and would be lost.')
    all.shift()
    expect(all[0]?.fix).toContain(`git -C ${garden.folder} worktree remove ${at('clean')}`)
    expect(all[1]?.evidence.join(' ')).toContain('1 uncommitted change, which would be lost.')
    expect(all[2]?.fix).toContain('worktree prune')
    expect(all[3]?.fix).toContain(`'${at(String.raw`it'\''s`)}'`)
    expect(await fixed(garden)).toEqual([])
    expect(existsSync(join(at('dirty'), 'work'))).toBe(true)
    expect(existsSync(at('clean'))).toBe(true)
  })
})
