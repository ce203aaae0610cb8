import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, readlinkSync, rmdirSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Garden, watch } from '../../support/leftovers.ts'
import { cgroupAvailable, needs } from '../../support/real.ts'
import { Terminal } from '../../support/terminal.ts'
import { ownCgroup2, seen, survivors, waitUntil } from '../../support/world.ts'
import { found, ofPid, open } from './looks.ts'

/** Processes that look like leftovers and are in use: they are not listed, or listed as perhaps in use, and survive every fix. */

type Plant = (garden: Garden) => Promise<number>

async function child(garden: Garden, words: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<number> {
  const [program = '', ...args] = words
  const started: ChildProcess = spawn(program, args, { env: garden.environment(env), stdio: 'ignore' })
  const pid = started.pid ?? 0
  await waitUntil(() => seen(pid) !== undefined, 20_000, 'it runs')
  return pid
}

const innocents: Readonly<Record<string, Plant>> = {
  'an agent with a living parent': (garden) => child(garden, [garden.program('claude'), '-p']),
  'a background process that a tool of a living agent has started': async (garden) => {
    const agent = await child(garden, [garden.program('claude')])
    return await garden.orphan([garden.program('dev-server')], { env: { CLAUDECODE: '1', CLAUDE_PID: String(agent) } })
  },
  'an agent that is marked by an Ebb': (garden) => garden.orphan([garden.program('claude')], { env: { EBB_SCOPE: 'a/b/c.1' } }),
  'an unrelated daemon': (garden) => garden.orphan([garden.program('postgres'), '-D', '/var/lib/claude']),
  'a dev server in node, in a folder named after an agent': (garden) =>
    garden.orphan([garden.program('node'), '/home/me/claude/codex/mcp/server.js', '--name', 'claude']),
  'an editor of a file named after an agent': (garden) => garden.orphan([garden.program('vim'), 'claude.md', 'claude']),
  'a search for the name of an agent': (garden) => garden.orphan([garden.program('grep'), '-r', 'claude']),
  'a tail of a log named after an agent': async (garden) => {
    const log = join(garden.folder, 'claude.log')
    writeFileSync(log, '')
    return await garden.orphan(['tail', '-f', log])
  },
  'a shell with the word in its arguments': (garden) => garden.orphan(['bash', '-c', 'sleep 10000; : claude codex', 'claude']),
  'a language server of an editor': (garden) =>
    garden.orphan([garden.program('node'), '/x/node_modules/typescript/lib/tsserver.js', '--stdio']),
  'the renderer of a desktop application': (garden) => garden.orphan([garden.program('claude'), '--type=renderer']),
  'an MCP server whose input has a writer': (garden) =>
    garden.orphan([garden.program('mcp-server-git')], { shell: 'sleep 10000 2>/dev/null | "$@" >/dev/null 2>&1 & echo $!' }),
  'an MCP server whose input is a named pipe with a writer': (garden) => {
    const fifo = namedPipe(garden)
    return garden.orphan([garden.program('mcp-server-git')], {
      shell: `sleep 10000 >${fifo} 2>/dev/null </dev/null & "$@" <${fifo} >/dev/null 2>&1 & echo $!`,
    })
  },
  'a program that runs in the folder of an MCP client': (garden) =>
    garden.orphan([garden.program('uv'), '--directory', '/home/me/mcp-client', 'run', 'pytest']),
  'a package script named like an MCP server': (garden) => garden.orphan([garden.program('npm'), 'run', 'foo-mcp']),
  'a tmux server that a tool has started': (garden) => garden.orphan([garden.program('tmux')], { env: { CLAUDECODE: '1' } }),
  'a gpg-agent that a tool has started': (garden) => garden.orphan([garden.program('gpg-agent')], { env: { CLAUDECODE: '1' } }),
}

function namedPipe(garden: Garden): string {
  const path = join(garden.folder, 'fifo')
  execFileSync('mkfifo', [path])
  return path
}

const perhaps: Readonly<Record<string, Plant>> = {
  'an agent that writes into a file': (garden) =>
    garden.orphan([garden.program('claude'), '-p'], { shell: `nohup "$@" </dev/null >"${join(garden.folder, 'out.log')}" 2>&1 & echo $!` }),
  'an agent whose output has a reader': (garden) =>
    garden.orphan([garden.program('claude')], {
      shell: 'exec 3>&1; { "$@" </dev/null 2>/dev/null 3>&- & echo $! >&3; } | cat >/dev/null 3>&- &',
    }),
  'an agent whose input has a writer': (garden) =>
    garden.orphan([garden.program('claude')], { shell: 'sleep 10000 2>/dev/null | "$@" >/dev/null 2>&1 & echo $!' }),
  'a tool without a pid in its mark, when an older agent is running': async (garden) => {
    await child(garden, [garden.program('codex'), 'exec'])
    return await garden.orphan([garden.program('dev-server')], { env: { CODEX_THREAD_ID: 'a' } })
  },
  'an MCP server whose input is a named pipe without a writer': (garden) => {
    const fifo = namedPipe(garden)
    return garden.orphan([garden.program('mcp-server-git')], {
      shell: `exec 9<>${fifo}; "$@" <${fifo} >/dev/null 2>&1 9>&- & echo $!`,
    })
  },
  'an agent whose output is a named pipe without a reader': (garden) => {
    const fifo = namedPipe(garden)
    return garden.orphan([garden.program('claude')], { shell: `exec 9<>${fifo}; "$@" </dev/null >${fifo} 2>/dev/null 9>&- & echo $!` })
  },
  'an agent with its output at /dev/null and a network connection': async (garden) => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const talks = `require('node:net').connect(${(server.address() as AddressInfo).port}, '127.0.0.1')`
    const connected = once(server, 'connection')
    const pid = await garden.orphan(['bash', '-c', `exec -a claude ${process.execPath} -e "${talks}"`])
    await connected
    server.close()
    return pid
  },
  'an agent with its output at /dev/null that waits for a tool': async (garden) => {
    const pid = await garden.orphan([garden.script('claude', "bash -c 'source /dev/null; sleep 10000; :'; :"), '-p', 'Run the tests'])
    await running(garden, 'sleep')
    return pid
  },
  'an agent with its output at /dev/null that runs a program, below a shell': async (garden) => {
    const pid = await garden.orphan(['bash', '-c', `${garden.script('claude', `${garden.program('make')}; :`)} -p; :`])
    await running(garden, 'make')
    return pid
  },
  'a tool with a window': async (garden) => {
    const library = join(garden.folder, 'libX11.so.6')
    execFileSync('gcc', ['-shared', '-o', library, '-x', 'c', '/dev/null'])
    const pid = await garden.orphan([garden.program('viewer')], { env: { CLAUDECODE: '1', DISPLAY: ':0', LD_PRELOAD: library } })
    await waitUntil(() => readFileSync(`/proc/${pid}/maps`, 'utf8').includes(library), 20_000, 'it has its library')
    return pid
  },
  'a tool that listens on a socket': async (garden) => {
    const listens = "require('node:net').createServer().listen(0,'127.0.0.1')"
    const pid = await garden.orphan([process.execPath, '-e', listens], { env: { CLAUDECODE: '1' } })
    await waitUntil(() => listeningPort(pid) !== undefined, 20_000, 'it listens')
    return pid
  },
}

/** Returns the targets of the descriptors of a process. ls(1) cannot list them, because it fails when a descriptor is closed meanwhile. */
function targetsOf(pid: number): ReadonlySet<string> {
  const targets = new Set<string>()
  for (const name of readdirSync(`/proc/${pid}/fd`)) {
    try {
      targets.add(readlinkSync(`/proc/${pid}/fd/${name}`))
    } catch {}
  }
  return targets
}

function listeningPort(pid: number): number | undefined {
  const lines = readFileSync(`/proc/${pid}/net/tcp`, 'utf8').split('\n')
  const open = targetsOf(pid)
  const fields = lines.map((line) => line.trim().split(/\s+/)).find((row) => row[3] === '0A' && open.has(`socket:[${row[9]}]`))
  return fields && Number.parseInt(fields[1]?.split(':')[1] ?? '', 16)
}

describe('doctor: not a leftover', () => {
  needs('gcc')
  for (const [what, plant] of Object.entries(innocents)) {
    it(what, async () => {
      await using garden = new Garden()
      await expectToSurviveFix(garden, await plant(garden))
      expect((await found(garden)).map((one) => one.what)).toEqual([])
    })
  }

  it('a process with a terminal, though its parent is gone', async () => {
    await using garden = new Garden()
    await using terminal = await Terminal.open({})
    terminal.type(`(${garden.program('claude')} >/dev/null 2>&1 &); echo started`)
    await terminal.shows(/^started/m)
    const pid = await running(garden, 'claude')
    expect(seen(pid)?.ppid).toBe(1)
    await expectToSurviveFix(garden, pid)
    expect(ofPid(await found(garden), pid)).toBeUndefined()
  })

  it.skipIf(!cgroupAvailable())('a managed service', async () => {
    await using garden = new Garden()
    const directory = join(ownCgroup2() ?? '', `doctor-${process.pid}.service`)
    mkdirSync(directory)
    try {
      const pid = await garden.orphan([garden.program('claude')])
      writeFileSync(join(directory, 'cgroup.procs'), String(pid))
      await expectToSurviveFix(garden, pid)
      expect(await found(garden)).toEqual([])
    } finally {
      await garden[Symbol.asyncDispose]()
      rmdirSync(directory)
    }
  })
})

describe('doctor: not ours', () => {
  needs('gcc', 'unshare', 'root')

  it('an agent in another pid namespace is not a leftover', async () => {
    await using garden = new Garden()
    const outer = await garden.orphan(['unshare', '--pid', '--fork', garden.program('claude')])
    const pid = await running(garden, 'claude')
    process.kill(outer, 'SIGKILL')
    await waitUntil(() => seen(pid)?.ppid === 1, 20_000, 'it is adopted')
    await expectToSurviveFix(garden, pid)
    expect(await found(garden)).toEqual([])
  })

  it('an agent of another user is shown, and never ended', async () => {
    await using garden = new Garden()
    const program = garden.program('claude')
    execFileSync('chmod', ['a+rx', garden.folder, program])
    const pid = await garden.orphan([program], { through: ['setpriv', '--reuid', '65534', '--clear-groups'] })
    await expectToSurviveFix(garden, pid)
    const one = ofPid(await found(garden), pid)
    expect(one).toMatchObject({ sure: 'perhaps', fixes: false })
    expect(one?.evidence.join(' ')).toContain('belongs to another user (uid 65534)')
  })
})

describe('doctor: perhaps in use, so never ended', () => {
  needs('gcc')
  for (const [what, plant] of Object.entries(perhaps)) {
    it(what, async () => {
      await using garden = new Garden()
      const pid = await plant(garden)
      await expectToSurviveFix(garden, pid)
      expect(ofPid(await found(garden), pid)).toMatchObject({ sure: 'perhaps', fixes: false })
    })
  }

  it('an MCP server that listens, with and without a connected client', async () => {
    await using garden = new Garden()
    const listens = "require('node:net').createServer().listen(0,'127.0.0.1')"
    const file = join(garden.folder, 'node_modules', '@modelcontextprotocol', 'server-http')
    mkdirSync(file, { recursive: true })
    writeFileSync(join(file, 'index.js'), listens)
    const pid = await garden.orphan([process.execPath, join(file, 'index.js')])
    await waitUntil(() => listeningPort(pid) !== undefined, 20_000, 'it listens')
    expect(ofPid(await found(garden), pid)).toMatchObject({ sure: 'perhaps', fixes: false })
    const connection = connect(listeningPort(pid) ?? 0, '127.0.0.1')
    await new Promise((resolve) => connection.once('connect', resolve))
    await expectToSurviveFix(garden, pid)
    expect(ofPid(await found(garden), pid)?.evidence.join(' ')).toContain('a client is connected')
    expect(ofPid(await found(garden), pid)?.fix).toContain(`When you are sure that it is not: kill ${pid}`)
    connection.destroy()
  })
})

async function running(garden: Garden, command: string): Promise<number> {
  await waitUntil(() => survivors(garden.mark).some((one) => one.command === command), 20_000, `${command} runs`)
  return survivors(garden.mark).find((one) => one.command === command)?.pid ?? 0
}

/** Ends every leftover that the doctor finds, and requires that the process `pid` survives. */
async function expectToSurviveFix(garden: Garden, pid: number): Promise<void> {
  const isThere = watch(pid)
  expect(isThere()).toBe(true)
  const leftovers = open(garden)
  await leftovers.end((await leftovers.find()).leftovers)
  expect(isThere()).toBe(true)
}
