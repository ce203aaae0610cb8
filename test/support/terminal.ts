import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { temporaryHome } from './home.ts'
import { seen, waitUntil } from './world.ts'

export interface TerminalSize {
  readonly columns?: number
  readonly rows?: number
}

/** A real terminal: a tmux server of its own with one window, in which an interactive shell reads keys. */
export class Terminal implements AsyncDisposable {
  readonly #socket = join(temporaryHome(), 'socket')
  #isClosed = false

  /** Resolves when the shell has printed its prompt. Earlier input would be echoed in the wrong place. */
  static async open(env: Readonly<Record<string, string>>, size: TerminalSize = {}): Promise<Terminal> {
    const terminal = new Terminal(env, size)
    await terminal.shows('prompt>')
    return terminal
  }

  private constructor(env: Readonly<Record<string, string>>, { columns = 100, rows = 30 }: TerminalSize) {
    const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`)
    const shell = ['env', '-u', 'TMUX', 'PS1=prompt> ', 'ENV=', 'HISTFILE=', ...variables, 'sh', '-i']
    const size = ['-x', String(columns), '-y', String(rows)]
    this.#tmux(['-f', '/dev/null', 'new-session', '-d', ...size, ...shell])
  }

  #tmux(words: readonly string[]): string {
    return execFileSync('tmux', ['-S', this.#socket, ...words], { encoding: 'utf8' })
  }

  /** Keys by their tmux names, such as `C-c` and `Enter`. */
  press(...keys: readonly string[]): void {
    this.#tmux(['send-keys', ...keys])
  }

  type(line: string): void {
    this.#tmux(['send-keys', '-l', line])
    this.press('Enter')
  }

  resize(columns: number, rows: number): void {
    this.#tmux(['resize-window', '-x', String(columns), '-y', String(rows)])
  }

  /** The text on the screen. */
  screen(): string {
    return this.#tmux(['capture-pane', '-p'])
  }

  /** All output of the terminal since its start, with wrapped lines joined. */
  written(): string {
    return this.#tmux(['capture-pane', '-p', '-J', '-S', '-'])
  }

  /**
   * The screen and the history at one moment. tmux runs the commands of one line without reading from its panes in between, so both show
   * the same prompt or clock.
   */
  atOnce(): { readonly screen: string; readonly written: string } {
    const mark = '\u001f'
    const both = this.#tmux(['capture-pane', '-p', ';', 'display-message', '-p', mark, ';', 'capture-pane', '-p', '-J', '-S', '-'])
    const [screen = '', written = ''] = both.split(`${mark}\n`)
    return { screen, written }
  }

  /** The screen with its colours as escape sequences. */
  painted(): string {
    return this.#tmux(['capture-pane', '-p', '-e'])
  }

  /** A tmux format variable, such as `alternate_on` or `cursor_flag`. */
  fact(name: string): string {
    return this.#tmux(['display-message', '-p', `#{${name}}`]).trim()
  }

  async shows(text: string | RegExp, deadlineMs = 15_000): Promise<void> {
    const isShown = (): boolean => (typeof text === 'string' ? this.screen().includes(text) : text.test(this.screen()))
    await waitUntil(isShown, deadlineMs, `the terminal shows ${String(text)}`).catch((error: unknown) => {
      throw new Error(`${String(error)}\n${this.screen()}`)
    })
  }

  /** Closes the window and waits until the server is gone. Processes in the terminal get SIGHUP. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    const pid = Number(this.fact('pid'))
    this.#tmux(['kill-server'])
    await waitUntil(() => seen(pid) === undefined, 10_000, 'the terminal is gone')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}
