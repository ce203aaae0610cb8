import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statfsSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, processesWhere, waitUntil } from './world.ts'

/** A Docker daemon of its own for a test file, and its containers as the docker command shows them. Shares no code with `src/`. */

export interface TestContainer {
  readonly id: string
  readonly name: string
  readonly state: string
}

export interface TestDaemon {
  /** The address of the daemon, such as `unix:///…/sock`. */
  readonly host: string
  readonly folder: string
  /** Settings of a server that uses this daemon. */
  readonly words: readonly string[]
  /** Runs the docker command. Throws with its output when it fails. */
  docker(...words: readonly string[]): string
  /** All containers, or only those with a label. */
  containers(label?: string): readonly TestContainer[]
  /** Sends SIGKILL to the daemon. Its containers keep running. */
  kill(): Promise<void>
  start(): Promise<void>
  /** Sends SIGSTOP, so that the daemon hangs. `thaw` sends SIGCONT. */
  freeze(): void
  thaw(): void
  /** Continues or restarts the daemon when it does not answer. */
  revive(): Promise<void>
  /** Removes every container and ends the daemon. Fails when anything of it is left. */
  end(): Promise<void>
}

export const image = 'bb:1'

const patienceMs = 30_000
/** The timeout of a docker command. Without it, a docker command to a hanging daemon would hang the test. */
const commandMs = 30_000
/** The type of overlayfs in statfs(2). overlay2 does not work on top of overlayfs. */
const overlayfs = 0x794c7630

export async function startDockerd(): Promise<TestDaemon> {
  const folder = mkdtempSync(join(tmpdir(), 'ebb-dockerd-'))
  const daemon = new Dockerd(folder)
  try {
    await daemon.start()
    daemon.importImage()
    return daemon
  } catch (error) {
    // The error of the start is more useful than an error of the clean-up.
    await daemon.end().catch(() => {})
    throw error
  }
}

class Dockerd implements TestDaemon {
  readonly folder: string
  readonly host: string
  readonly words: readonly string[]
  /** The environment of the first start. A daemon that a test restarts keeps the file's mark, because it belongs to the file. */
  readonly #env: NodeJS.ProcessEnv
  #child: ChildProcess | undefined
  #ended: Promise<void> = Promise.resolve()

  constructor(folder: string) {
    this.folder = folder
    // dockerd writes its stack dumps to TMPDIR, so they are removed with the folder.
    this.#env = { ...process.env, TMPDIR: folder }
    this.host = `unix://${join(folder, 'sock')}`
    this.words = ['--docker-image', image, '--docker-host', this.host, '--docker-network', 'none']
  }

  async start(): Promise<void> {
    const { folder, host } = this
    const driver = statfsSync(folder).type === overlayfs ? 'vfs' : 'overlay2'
    const options = [
      '--iptables=false',
      '--ip6tables=false',
      '--bridge=none',
      `--storage-driver=${driver}`,
      '--live-restore',
      `--host=${host}`,
    ]
    const places = [`--data-root=${join(folder, 'data')}`, `--exec-root=${join(folder, 'exec')}`, `--pidfile=${join(folder, 'pid')}`]
    // A file, not a pipe: a test that blocks in a docker command does not read the pipe, and the daemon would block on it.
    const log = openSync(join(folder, 'log'), 'a')
    const child = spawn('dockerd', [...options, ...places], { env: this.#env, stdio: ['ignore', 'ignore', log] })
    closeSync(log)
    this.#child = child
    this.#ended = new Promise((resolve) => child.once('exit', () => resolve()))
    await Promise.race([
      waitUntil(() => this.#try('version').status === 0, patienceMs, 'the docker daemon answers'),
      this.#ended.then(() => Promise.reject(new Error(`dockerd ended: ${readFileSync(join(folder, 'log'), 'utf8').slice(-2_000)}`))),
    ])
  }

  async kill(): Promise<void> {
    const containerd = pidIn(join(this.folder, 'exec', 'containerd', 'containerd.pid'))
    this.#child?.kill('SIGKILL')
    await this.#ended
    // containerd is killed when dockerd dies (PDEATHSIG). A new daemon must not meet the old containerd.
    await waitUntil(() => containerd === undefined || !existsSync(`/proc/${containerd}`), patienceMs, 'containerd has ended')
  }

  freeze(): void {
    this.#child?.kill('SIGSTOP')
  }

  thaw(): void {
    this.#child?.kill('SIGCONT')
  }

  docker(...words: readonly string[]): string {
    return execFileSync('docker', ['--host', this.host, ...words], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: commandMs,
    }).trim()
  }

  #try(...words: readonly string[]): { readonly status: number | null } {
    return spawnSync('docker', ['--host', this.host, ...words], { stdio: 'ignore', timeout: commandMs })
  }

  containers(label?: string): readonly TestContainer[] {
    const filter = label === undefined ? [] : ['--filter', `label=${label}`]
    return this.docker('ps', '-a', '--no-trunc', '--format', '{{.ID}} {{.Names}} {{.State}}', ...filter)
      .split('\n')
      .filter(Boolean)
      .map((line) => {
        const [id = '', name = '', state = ''] = line.split(' ')
        return { id, name, state }
      })
  }

  importImage(): void {
    const files = join(this.folder, 'image')
    for (const name of ['bin', 'tmp', 'etc', 'root']) mkdirSync(join(files, name), { recursive: true })
    const busybox = execFileSync('sh', ['-c', 'command -v busybox'], { encoding: 'utf8' }).trim()
    copyFileSync(busybox, join(files, 'bin', 'busybox'))
    const names = execFileSync(busybox, ['--list'], { encoding: 'utf8' })
      .split('\n')
      .filter((name) => name !== '' && name !== 'busybox')
    for (const name of names) symlinkSync('busybox', join(files, 'bin', name))
    const tar = execFileSync('tar', ['-C', files, '-c', '.'], { maxBuffer: 1 << 27 })
    execFileSync('docker', ['--host', this.host, 'import', '-c', 'ENV PATH=/bin', '-c', 'VOLUME /volume', '-', image], {
      input: tar,
      stdio: ['pipe', 'ignore', 'pipe'],
    })
    rmSync(files, { recursive: true })
  }

  async revive(): Promise<void> {
    this.thaw()
    if (this.#try('version').status !== 0) await this.start()
  }

  async end(): Promise<void> {
    // A failed test may have left the daemon dead with its containers running.
    await this.revive()
    for (const { id } of this.containers()) this.docker('rm', '-f', '-v', id)
    this.#child?.kill('SIGTERM')
    await this.#ended
    // dockerd mounts its folder on itself. A killed daemon leaves that mount behind.
    for (const line of this.#mounts()) spawnSync('umount', [line.split(' ')[1] ?? ''])
    await waitUntil(() => this.#left(), patienceMs, 'nothing of the docker daemon is left')
    rmSync(this.folder, { recursive: true, force: true })
  }

  #left(): readonly string[] {
    return [...processesWhere(({ argv }) => argv.includes(this.folder)).map(describe), ...this.#mounts()]
  }

  /** The mounts of the daemon. The latest mount comes first, because it may be on top of another mount. */
  #mounts(): readonly string[] {
    const all = readFileSync('/proc/self/mounts', 'utf8').split('\n')
    return all.filter((line) => line.includes(this.folder)).toReversed()
  }
}

function pidIn(file: string): number | undefined {
  return existsSync(file) ? Number(readFileSync(file, 'utf8')) : undefined
}
