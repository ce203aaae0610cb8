import { type ChildProcess, spawn } from 'node:child_process'

/**
 * A shell that is pid 1 of its own pid namespace and runs the lines that a test sends. Only in its own namespace can a test choose the pid
 * of the next process. Leaving the block ends every process in it.
 */
export class NamespaceShell implements AsyncDisposable {
  readonly #child: ChildProcess
  #output = ''
  #onOutput = (): void => {}

  constructor(env: Readonly<Record<string, string>>) {
    this.#child = spawn('unshare', ['--pid', '--fork', '--kill-child', '--mount-proc', 'sh'], {
      env: { ...process.env, ...env },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#child.stdout?.on('data', (chunk: Buffer) => {
      this.#output += chunk.toString('utf8')
      this.#onOutput()
    })
  }

  /** Runs one line and returns what it wrote to standard output. */
  async run(line: string): Promise<string> {
    const end = `--end-${Math.random()}--`
    this.#child.stdin?.write(`${line}\necho ${end}\n`)
    await new Promise<void>((resolve, reject) => {
      this.#onOutput = () => this.#output.includes(end) && resolve()
      this.#child.once('exit', () => reject(new Error(`The shell ended: ${this.#output}`)))
    })
    const [answer = '', rest = ''] = this.#output.split(`${end}\n`)
    this.#output = rest
    return answer.trim()
  }

  /** Starts a background process with the given pid. Throws when another process has that pid. */
  async startAs(pid: number, command: string): Promise<void> {
    const got = await this.run(`echo ${pid - 1} >/proc/sys/kernel/ns_last_pid; ${command} >/dev/null & echo $!`)
    if (Number(got) !== pid) throw new Error(`The process got pid ${got} instead of ${pid}, which is in use.`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exited = new Promise((resolve) => this.#child.once('exit', resolve))
    this.#child.kill('SIGKILL')
    await exited
  }
}
