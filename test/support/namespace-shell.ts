import { type ChildProcess, spawn } from 'node:child_process'

/**
 * A shell that is pid 1 of a pid namespace of its own and does what it is told, line by line: there, and only there, a
 * test can say which pid the next process gets. Leaving the block ends everything in it.
 */
export class NamespaceShell implements AsyncDisposable {
  readonly #child: ChildProcess
  #output = ''
  #told = (): void => {}

  constructor(env: Readonly<Record<string, string>>) {
    this.#child = spawn('unshare', ['--pid', '--fork', '--kill-child', '--mount-proc', 'sh'], {
      env: { ...process.env, ...env },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#child.stdout?.on('data', (chunk: Buffer) => {
      this.#output += chunk.toString('utf8')
      this.#told()
    })
  }

  /** What the line wrote to standard output. */
  async run(line: string): Promise<string> {
    const end = `--end-${Math.random()}--`
    this.#child.stdin?.write(`${line}\necho ${end}\n`)
    await new Promise<void>((resolve, reject) => {
      this.#told = () => this.#output.includes(end) && resolve()
      this.#child.once('exit', () => reject(new Error(`The shell ended: ${this.#output}`)))
    })
    const [answer = '', rest = ''] = this.#output.split(`${end}\n`)
    this.#output = rest
    return answer.trim()
  }

  /** A process in the background, with the pid that was asked for; throws when somebody else has it. */
  async startAs(pid: number, command: string): Promise<void> {
    const got = await this.run(`echo ${pid - 1} >/proc/sys/kernel/ns_last_pid; ${command} >/dev/null & echo $!`)
    if (Number(got) !== pid) throw new Error(`The pid ${pid} was not free, it became ${got}.`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exited = new Promise((resolve) => this.#child.once('exit', resolve))
    this.#child.kill('SIGKILL')
    await exited
  }
}
