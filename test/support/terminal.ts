import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { temporaryHome } from './home.ts'
import { waitUntil } from './world.ts'

/** A real terminal: a tmux server of its own with one window, in which an interactive shell waits for keys. */
export class Terminal implements AsyncDisposable {
  readonly #socket = join(temporaryHome(), 'socket')

  /** Ready when the shell has shown its prompt: what is typed before would be echoed in the wrong place. */
  static async open(env: Readonly<Record<string, string>>): Promise<Terminal> {
    const terminal = new Terminal(env)
    await terminal.shows('prompt>')
    return terminal
  }

  private constructor(env: Readonly<Record<string, string>>) {
    const shell = ['env', '-u', 'TMUX', 'PS1=prompt> ', 'ENV=', 'HISTFILE=', 'sh', '-i']
    const variables = Object.entries(env).flatMap(([name, value]) => ['-e', `${name}=${value}`])
    this.#tmux(['-f', '/dev/null', 'new-session', '-d', '-x', '100', '-y', '30', ...variables, ...shell])
  }

  #tmux(words: readonly string[]): string {
    return execFileSync('tmux', ['-S', this.#socket, ...words], { encoding: 'utf8' })
  }

  /** tmux's names of keys, such as `C-c` and `Enter`. */
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

  /** What a person would see now. */
  screen(): string {
    return this.#tmux(['capture-pane', '-p'])
  }

  async shows(text: string | RegExp, deadlineMs = 15_000): Promise<void> {
    const look = (): boolean => (typeof text === 'string' ? this.screen().includes(text) : text.test(this.screen()))
    await waitUntil(look, deadlineMs, `the terminal shows ${String(text)}`).catch((error: unknown) => {
      throw new Error(`${String(error)}\n${this.screen()}`)
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#tmux(['kill-server'])
  }
}
