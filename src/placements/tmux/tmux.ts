import { execFile } from 'node:child_process'
import { connect } from 'node:net'
import { sentence } from '../../core/model/errors.ts'
import { environmentTag, type Mark, parseEnvironmentTags } from '../../core/model/identity.ts'
import type { Effects } from '../../core/ports/effects.ts'

/** A session of Ebb's tmux server that carries a mark. The name of a session is only a label, which anybody may change. */
export interface Session {
  /** The id that the server gave to the session, such as `$3`. A server never reuses an id. */
  readonly id: string
  readonly mark: Mark
  readonly panePid: number
}

/** `none`: no server listens on the socket, so there is no session. */
export type Listing = readonly Session[] | 'none'

/** tmux answers in 5 ms. After this time it counts as stopped or broken. */
const answerMs = 5_000

/** The option that holds the mark. It is set by the same command that creates the session. */
const markOption = '@ebb'

export interface TmuxDeps {
  readonly effects: Effects
  /** The socket of this installation's own server. */
  readonly socket: string
  readonly environment: Readonly<Record<string, string>>
}

/** Ebb's own tmux server, controlled through the command `tmux`. It reads no configuration file, because a user's could change anything. */
export class Tmux {
  readonly #deps: TmuxDeps
  /**
   * The running listing of sessions, and the listing after it. Callers that arrive while a listing runs share the next listing, which
   * begins after they have called.
   */
  #listing: { readonly current: Promise<Listing>; next: Promise<Listing> | undefined } | undefined

  constructor(deps: TmuxDeps) {
    this.#deps = deps
  }

  argv(...words: readonly string[]): readonly string[] {
    return ['tmux', '-u', '-S', this.#deps.socket, '-f', '/dev/null', ...words]
  }

  /**
   * Creates a session that carries its mark from the first moment. Returns its id and the pid in its pane. The working directory is `/`,
   * because tmux expands formats such as `#(…)` in the name of a directory; the script in the pane changes it.
   */
  async open({ name, mark, pane, throughGate }: NewSession): Promise<{ readonly id: string; readonly panePid: number }> {
    const argv = this.argv(
      ...['new-session', '-d', '-P', '-F', '#{session_id} #{pane_pid}', '-s', name, '-x', '200', '-y', '50', '-c', '/'],
      ...['-e', `EBB_SCOPE=${pane.environmentTag}`, '--', ...pane.argv],
      ...[';', 'set-option', '-t', `=${name}:`, markOption, mark],
      // An agent that knows the socket may create sessions on this server. With `update-environment` such a session gets the environment
      // tag of its creator, and ends with the creator.
      ...[';', 'set-option', '-g', 'update-environment', 'EBB_SCOPE'],
    )
    // Entering a cgroup takes up to 20 ms, and only the client that starts the server must enter it. All others get `-N`, which keeps them
    // from starting a server.
    const isServed = await isListening(this.#deps.socket)
    const first = await this.#make(isServed ? { program: 'tmux', argv: ['tmux', '-N', ...argv.slice(1)] } : throughGate(argv))
    if (typeof first !== 'string') return first
    // A server exits with its last session. A client that connects at that moment is refused, or finds no server, so the creation is tried
    // again. A tmux before 3.2 does not know `-N` and is also retried here.
    const second = (await this.#carries(mark)) ? first : await this.#make(throughGate(argv))
    if (typeof second === 'string') throw new Error(`tmux could not create the session ${name}: ${second}`)
    return second
  }

  /** Runs the command that creates a session. Returns the session, or the error output of tmux. */
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

  /** Kills a session, which hangs up its terminal. Processes that survive are ended elsewhere. A session that is gone already is fine. */
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

  /** All sessions with a mark. Throws when tmux does not answer. Concurrent callers share at most two listings. */
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
    const answer = await runTmux(program, args, this.#environment())
    if (answer.error === undefined) return answer.text.split('\n').flatMap(parseSession)
    // "No server" has the same exit code as other failures, so the socket is tested as well.
    if (!(await isListening(this.#deps.socket))) return 'none'
    throw new Error(`tmux does not list its sessions: ${answer.error}`)
  }

  #environment(): Record<string, string> {
    const { PATH = '/usr/bin:/bin', EBB_SCOPE } = this.#deps.environment
    // The server keeps the environment of the client that started it, and passes it to every pane, so it gets only a few variables.
    return { PATH, LC_ALL: 'C.UTF-8', ...(EBB_SCOPE !== undefined && { EBB_SCOPE }) }
  }
}

export interface NewSession {
  readonly name: string
  readonly mark: string
  readonly pane: { readonly argv: readonly string[]; readonly environmentTag: string }
  /** Wraps a command so that it first enters the cgroup of the tmux server, because the first client starts the server. */
  readonly throughGate: (argv: readonly string[]) => { readonly program: string; readonly argv: readonly string[] }
}

function parseSession(line: string): readonly Session[] {
  const [id = '', pid = '', mark = ''] = line.split(' ')
  const [found] = parseEnvironmentTags(mark)
  return found ? [{ id, panePid: Number(pid), mark: found }] : []
}

/** Runs tmux and returns its output. When tmux is ended by a signal that it handles, it exits with 0 and no output. */
function runTmux(
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

/** A killed server leaves its socket behind, and a connection to it fails with ECONNREFUSED. */
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

/**
 * The first client starts the server. It enters a separate cgroup, when there is one, so that the server does not end with the cgroup of a
 * supervisor.
 */
export function throughGate(
  gate: string | undefined,
  argv: readonly string[],
): { readonly program: string; readonly argv: readonly string[] } {
  if (gate === undefined) return { program: 'tmux', argv }
  return { program: '/bin/sh', argv: ['sh', '-c', '{ echo $$ >"$0"; } 2>/dev/null; exec "$@"', gate, ...argv] }
}
