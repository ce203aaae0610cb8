import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { blocks } from './documents.ts'
import { ebbProgram, temporaryHome } from './home.ts'
import { startServer, type TestServer } from './server.ts'
import { Terminal } from './terminal.ts'
import { waitUntil } from './world.ts'

/**
 * Runs the console commands of a documentation page, line by line, in a project of its own. Three things differ from the page: servers use
 * a free port, ids are those of existing agents, and the agent programs, which this host may not have, are stand-ins that print one
 * result. The real programs are tested in test/agents.
 */

export interface Typed {
  readonly code: number | null
  readonly output: string
}

/** The commands of a page, without usage lines. */
export function commandsOf(page: string): readonly string[] {
  return blocks(page, 'console')
    .flatMap((body) => body.replaceAll(/\\\n\s*/g, '').split('\n'))
    .filter((line) => line.startsWith('$ ') && !/[[…]|\bID\b/.test(line))
    .map((line) => line.slice(2).replace(/\s+# .*$/, ''))
}

const deadlineMs = 40_000

/** The token for servers of a page that need one. */
const token = 'a-token-of-the-page'
const headers = { authorization: `Bearer ${token}` }

const isEndless = (line: string): boolean => line.startsWith('ebb scripted-model')

export class PageReader implements AsyncDisposable {
  readonly #folder = temporaryHome()
  readonly #env: NodeJS.ProcessEnv
  readonly #servers: TestServer[] = []
  readonly #work = join(this.#folder, 'work')
  #home = temporaryHome()

  constructor(env: NodeJS.ProcessEnv = {}) {
    const bin = join(this.#folder, 'bin')
    for (const name of ['bin', 'work', 'project']) mkdirSync(join(this.#folder, name))
    symlinkSync(ebbProgram, join(bin, 'ebb'))
    const program = (path: string, lines: string): void => {
      writeFileSync(path, `#!/bin/sh\n${lines}\n`)
      chmodSync(path, 0o755)
    }
    program(join(bin, 'npx'), 'exec "$@"')
    program(join(bin, 'claude'), standIns.claude)
    program(join(bin, 'codex'), standIns.codex)
    program(join(bin, 'gemini'), standIns.gemini)
    program(join(this.#work, 'run-agent.sh'), 'echo done')
    writeFileSync(join(this.#work, 'package.json'), '{"name": "a-project", "scripts": {"test": "echo tested"}}')
    writeFileSync(join(this.#work, 'hello.json'), '{"rules": [{"turns": [{"text": "hello"}]}]}')
    const tokens = { TOKEN: token, RUNNER_TOKEN: token }
    this.#env = { ...process.env, ...tokens, EBB_URL: undefined, PATH: `${bin}:${process.env.PATH}`, ...env }
  }

  /** The server that was started last. Starts one with the test routes when the page has started none. */
  async server(): Promise<TestServer> {
    return this.#servers.at(-1) ?? (await this.#serve([]))
  }

  async type(command: string): Promise<Typed> {
    if (/^(ebb serve|npm start)\b/.test(command)) return await this.#typeServe(command)
    const line = await this.#localLine(command)
    if (/\battach\b/.test(command)) return await this.#attach(line)
    const child = spawn('sh', ['-c', line], {
      cwd: this.#work,
      // Placement settings belong to the server that receives the agent. A run with `--docker-…` flags therefore needs a home without a
      // server.
      env: { ...this.#env, EBB_HOME: / run .*--docker-/.test(line) ? temporaryHome() : this.#home },
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    const output = collect(child)
    // A prompt for commands that read one. A client of `ebb mcp` leaves by the end of input.
    child.stdin?.end('a prompt\n')
    if (isEndless(command)) {
      const file = />\s*(\S+)$/.exec(command)?.[1]
      await (file === undefined ? output.first : waitUntil(() => sizeOf(join(this.#work, file)) > 0, deadlineMs, `${file} is written`))
      child.kill('SIGTERM')
    }
    return { code: await ended(child, command, output), output: output.text() }
  }

  /** `ebb attach` needs a terminal. Ctrl-B D detaches from it. */
  async #attach(line: string): Promise<Typed> {
    await using terminal = await Terminal.open({ EBB_HOME: this.#home })
    // The shell of the terminal has a PATH of its own.
    terminal.type(`clear; ${line.replace(/^ebb/, ebbProgram)}; echo "code $?"`)
    await terminal.shows('here')
    terminal.press('C-b', 'd')
    await terminal.shows('code 0')
    return { code: 0, output: 'here' }
  }

  async #typeServe(command: string): Promise<Typed> {
    const words = command.startsWith('npm')
      ? []
      : (await this.#localLine(command))
          .replace(/\$(RUNNER_)?TOKEN/, token)
          .replaceAll(/["']/g, '')
          .replace(/--host \S+/, '--host 127.0.0.1')
          .replace(/--port \S+/, '')
          .split(/\s+/)
          .slice(2)
    const { url } = await this.#serve(words.filter(Boolean))
    return { code: 0, output: url }
  }

  async #serve(words: readonly string[]): Promise<TestServer> {
    this.#home = temporaryHome()
    const server = await startServer(
      words.filter((word) => word !== '--test-endpoints'),
      { home: this.#home, env: this.#env },
    )
    this.#servers.push(server)
    return server
  }

  /** Returns a command line of the page with the addresses and ids of this test in place of those on the page. */
  async #localLine(command: string): Promise<string> {
    let line = command
    const called = this.#servers.at(-1)
    if (called) line = line.replaceAll(/http:\/\/[\w.]+:4400/g, called.url)
    if (/localhost:4400/.test(line)) line = line.replaceAll('localhost:4400', new URL((await this.server()).url).host)
    if (/^ebb (ps|top|reset|show|logs|stop|rm|attach|archive)\b/.test(line)) await this.server()
    for (const name of new Set(line.match(/\b1a2b3c4d\b|\b5e6f7a8b\b|\b\w+-\d{6}-1a2b3c\b/g)))
      line = line.replaceAll(name, await this.#agentFor(line))
    return isEndless(line) ? `exec ${line}` : line
  }

  /** An agent that suits the command: one in tmux to attach to, one that ended and has an archive, or one that runs. */
  async #agentFor(line: string): Promise<string> {
    if (/\battach\b/.test(line)) return await this.#launch(['sh', '-c', 'echo here; exec sleep 1000'], { placement: 'tmux' })
    if (!/\b(logs|archive)\b/.test(line)) return await this.#launch(['sleep', '1000'])
    const id = await this.#launch(['sh', '-c', 'echo a word; echo a complaint >&2'])
    await (await this.server()).call('GET', `/api/agents/${id}/status?wait=20000`, { headers })
    return id
  }

  async #launch(command: readonly string[], more: object = {}): Promise<string> {
    const body = { type: 'command', prompt: '', configuration: { command }, ...more }
    const launched = await (await this.server()).call('POST', '/api/agents', { body, headers })
    if (launched.status !== 201) throw new Error(`The launch was answered with ${launched.status}: ${JSON.stringify(launched.body)}`)
    return launched.body.id
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // The servers stop in reverse order of their start, because a later server may use an earlier one.
    for (const server of this.#servers.toReversed()) await server.stop()
  }
}

/**
 * Scripts of the stand-ins for agent programs. Each prints the end of its work in its provider's format. When asked to add an MCP server,
 * claude starts that server once.
 */
const standIns = {
  claude: `[ "$1" = mcp ] && { shift 4; "$@" </dev/null && echo "added" && exit; }
echo '{"type":"result","subtype":"success","is_error":false,"result":"done","num_turns":1}'`,
  codex: `echo '{"type":"turn.completed","usage":{}}'`,
  gemini: `echo '{"type":"result","status":"success"}'`,
}

interface Output {
  /** Resolves when the child has printed something. */
  readonly first: Promise<void>
  text(): string
}

function collect(child: ChildProcess): Output {
  const pieces: Buffer[] = []
  const first = new Promise<void>((resolve) => {
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (piece: Buffer) => {
        pieces.push(piece)
        resolve()
      })
  })
  return { first, text: () => Buffer.concat(pieces).toString('utf8') }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}

function ended(child: ChildProcess, command: string, output: Output): Promise<number | null> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      child.kill('SIGKILL')
      reject(new Error(`"${command}" did not end within ${deadlineMs} ms:\n${output.text()}`))
    }, deadlineMs)
    child.once('close', (code) => {
      clearTimeout(timer)
      resolve(code)
    })
  })
}
