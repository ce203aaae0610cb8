import { execFile } from 'node:child_process'
import { connect } from 'node:net'
import { sentence } from '../../core/model/errors.ts'
import { environmentTag, type Mark, parseEnvironmentTags } from '../../core/model/identity.ts'
import type { Effects } from '../../core/ports/effects.ts'

/** A session of our server that carries a mark of ours; its name is only a label, and anybody may change it. */
export interface Session {
  /** `$3`: exact, and never given twice by one server. */
  readonly id: string
  readonly mark: Mark
  readonly panePid: number
}

/** `none`: no server listens, so there is no session either. */
export type Listing = readonly Session[] | 'none'

/** tmux answers in 5 ms; one that does not is stopped, or gone mad. */
const answerMs = 5_000

/** The option that carries the mark; set in the same command that makes the session. */
const markOption = '@ebb'

export interface TmuxDeps {
  readonly effects: Effects
  /** Of this installation alone. */
  readonly socket: string
  readonly environment: Readonly<Record<string, string>>
}

/** Our own tmux server, asked and told through its command. Without a configuration file: a user's could change anything. */
export class Tmux {
  readonly #deps: TmuxDeps
  /** A question that begins later shares the answer that begins later. */
  #listing: { readonly current: Promise<Listing>; next: Promise<Listing> | undefined } | undefined

  constructor(deps: TmuxDeps) {
    this.#deps = deps
  }

  argv(...words: readonly string[]): readonly string[] {
    return ['tmux', '-u', '-S', this.#deps.socket, '-f', '/dev/null', ...words]
  }

  /**
   * Makes a session that carries its mark from its first moment; says which, and the pid in its pane. In the root, because
   * tmux expands the name of a folder, `#(…)` and all; who is in the pane goes where it should.
   */
  async open({ name, mark, pane, throughGate }: NewSession): Promise<{ readonly id: string; readonly panePid: number }> {
    const argv = this.argv(
      ...['new-session', '-d', '-P', '-F', '#{session_id} #{pane_pid}', '-s', name, '-x', '200', '-y', '50', '-c', '/'],
      ...['-e', `EBB_SCOPE=${pane.environmentTag}`, '--', ...pane.argv],
      ...[';', 'set-option', '-t', `=${name}:`, markOption, mark],
      // Who makes a session here by himself, such as an agent that knows the socket, has his own mark in it, and it goes with him.
      ...[';', 'set-option', '-g', 'update-environment', 'EBB_SCOPE'],
    )
    // To enter a cgroup takes up to 20 ms: only who will be the server needs to, and nobody else may become it (-N).
    const isServed = await isListening(this.#deps.socket)
    const first = await this.#make(isServed ? { program: 'tmux', argv: ['tmux', '-N', ...argv.slice(1)] } : throughGate(argv))
    if (typeof first !== 'string') return first
    // A server leaves with its last session, and whoever comes in that moment is sent away, or finds nobody. A tmux before 3.2
    // does not know -N, and comes here, too.
    const second = (await this.#carries(mark)) ? first : await this.#make(throughGate(argv))
    if (typeof second === 'string') throw new Error(`tmux could not make the session ${name}: ${second}`)
    return second
  }

  /** The session, or what tmux says instead. */
  async #make(command: { readonly program: string; readonly argv: readonly string[] }) {
    const env = this.#environment()
    const child = await this.#deps.effects.spawn({ ...command, env, cwd: '/', stdio: ['ignore', 'pipe', 'pipe'] })
    const said = (await child.firstLine()) ?? ''
    const [, id, pid] = /^(\$\d+) (\d+)$/.exec(said) ?? []
    const { code } = await child.exit
    return code !== 0 || id === undefined ? said || `exit code ${code}` : { id, panePid: Number(pid) }
  }

  async #carries(mark: string): Promise<boolean> {
    const listing = await this.sessions()
    return listing !== 'none' && listing.some((session) => environmentTag(session.mark) === mark)
  }

  /** Hangs up its terminal; what survives that is for others to end. One that is gone by now is as good. */
  async kill(sessionId: string): Promise<void> {
    const argv = [...this.argv('kill-session', '-t', sessionId)]
    const child = await this.#deps.effects.spawn({
      program: 'tmux',
      argv,
      env: this.#environment(),
      cwd: '/',
      stdio: ['ignore', 'ignore', 'ignore'],
    })
    await child.exit
  }

  /** All sessions with a mark; throws when tmux gives no answer. Fifty who ask at once are two questions. */
  sessions(): Promise<Listing> {
    const running = this.#listing
    if (running) {
      running.next ??= running.current.then(
        () => this.sessions(),
        () => this.sessions(),
      )
      return running.next
    }
    const listing = { current: this.#list(), next: undefined }
    this.#listing = listing
    const over = (): void => {
      if (this.#listing === listing) this.#listing = undefined
    }
    listing.current.then(over, over)
    return listing.current
  }

  async #list(): Promise<Listing> {
    const [program = 'tmux', ...args] = this.argv('list-sessions', '-F', `#{session_id} #{pane_pid} #{${markOption}}`)
    const answer = await ask(program, args, this.#environment())
    if (answer.error === undefined) return answer.text.split('\n').flatMap(parseSession)
    // "No server" and other failures share an exit code: the socket itself says which it was.
    if (!(await isListening(this.#deps.socket))) return 'none'
    throw new Error(`tmux does not list its sessions: ${answer.error}`)
  }

  #environment(): Record<string, string> {
    const { PATH = '/usr/bin:/bin', EBB_SCOPE } = this.#deps.environment
    // The server keeps the environment of whoever started it, and gives it to every pane.
    return { PATH, LC_ALL: 'C.UTF-8', ...(EBB_SCOPE !== undefined && { EBB_SCOPE }) }
  }
}

export interface NewSession {
  readonly name: string
  readonly mark: string
  readonly pane: { readonly argv: readonly string[]; readonly environmentTag: string }
  /** The first client starts the server: it enters its own place before. */
  readonly throughGate: (argv: readonly string[]) => { readonly program: string; readonly argv: readonly string[] }
}

function parseSession(line: string): readonly Session[] {
  const [id = '', pid = '', mark = ''] = line.split(' ')
  const [found] = parseEnvironmentTags(mark)
  return found ? [{ id, panePid: Number(pid), mark: found }] : []
}

/** Ended by a signal that it can catch, tmux says that all went well, and nothing else. */
function ask(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<{ readonly text: string; readonly error?: string }> {
  return new Promise((resolve) => {
    execFile(program, args, { env, cwd: '/', timeout: answerMs, killSignal: 'SIGKILL', maxBuffer: 16_777_216 }, (error, stdout, stderr) => {
      resolve(error ? { text: '', error: stderr.trim() || sentence(error) } : { text: stdout })
    })
  })
}

/** A server that was killed leaves its socket behind; nobody answers there (ECONNREFUSED). */
function isListening(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = connect({ path: socket })
    probe.once('connect', () => {
      probe.destroy()
      resolve(true)
    })
    probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code !== 'ENOENT' && error.code !== 'ECONNREFUSED'))
  })
}

/** The first client starts the server: in a place of its own, where there is one, so that no supervisor's end is its end. */
export function throughGate(
  gate: string | undefined,
  argv: readonly string[],
): { readonly program: string; readonly argv: readonly string[] } {
  if (gate === undefined) return { program: 'tmux', argv }
  return { program: '/bin/sh', argv: ['sh', '-c', '{ echo $$ >"$0"; } 2>/dev/null; exec "$@"', gate, ...argv] }
}
