import { execFile, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { waitUntil } from '../../../test/support/world.ts'
import { type Launch, throughShell, type Way } from '../way.ts'

const run = promisify(execFile)

/**
 * A separate daemon in the network namespace of the measurement, so that `--network host` is the loopback with the model. No image is pulled: the
 * image is empty, and the machine's programs are mounted into it, read-only. The temp folder is inside of the container. HOME and the working
 * directory are mounted, as in a setup that keeps settings and work.
 */
export const dockerWay: Way = {
  name: 'docker-rm-f',
  title: 'docker rm -f',
  how: '`docker run -d CMD`, then `docker rm -f`; exit code 0',
  missing: () => {
    if (process.getuid?.() !== 0) return 'a separate daemon needs root'
    const isThere = (name: string): boolean => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0
    return isThere('dockerd') && isThere('docker') ? undefined : 'dockerd is not installed'
  },
  start: async (launch) => {
    const daemon = await startDaemon(join(launch.place.own, 'docker'))
    try {
      await daemon.docker('run', '-d', '--name', 'agent', ...optionsOf(launch), image, ...throughShell(launch))
    } catch (error) {
      await daemon.end()
      throw error
    }
    return {
      stop: async () => {
        await daemon.docker('rm', '-f', 'agent')
        return { isDone: true, words: 'exit code 0' }
      },
      end: daemon.end,
    }
  },
}

const image = 'ebb-leaks:1'

/** The folders of this machine that a program in the container needs. */
const machineFolders = ['/usr', '/etc', '/opt'].filter((folder) => existsSync(folder))

function optionsOf({ place, env, readOnly }: Launch): readonly string[] {
  const variables = Object.entries({ ...env, TMPDIR: '/tmp' }).flatMap(([name, value]) => ['-e', `${name}=${value}`])
  const mounts = [...machineFolders, ...readOnly].flatMap((folder) => ['-v', `${folder}:${folder}:ro`])
  return ['--network', 'host', '-w', place.work, ...mounts, '-v', `${place.base}:${place.base}`, ...variables]
}

interface Daemon {
  docker(...words: readonly string[]): Promise<string>
  end(): Promise<void>
}

async function startDaemon(folder: string): Promise<Daemon> {
  mkdirSync(folder, { recursive: true })
  const socket = join(folder, 'sock')
  const options = ['--iptables=false', '--ip6tables=false', '--bridge=none', '--storage-driver=overlay2', `--host=unix://${socket}`]
  const places = [`--data-root=${join(folder, 'data')}`, `--exec-root=${join(folder, 'exec')}`, `--pidfile=${join(folder, 'pid')}`]
  const child = spawn('dockerd', [...options, ...places], { stdio: 'ignore' })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const docker = async (...words: readonly string[]): Promise<string> =>
    (await run('docker', words, { env: { PATH: process.env.PATH, HOME: folder, DOCKER_HOST: `unix://${socket}` } })).stdout
  const end = async (): Promise<void> => {
    await docker('ps', '-aq').then(
      async (ids) => await Promise.all(ids.split('\n').flatMap((id) => (id ? [docker('rm', '-f', id)] : []))),
      () => [],
    )
    child.kill('SIGTERM')
    await ended
  }
  try {
    const answers = (): Promise<boolean> => docker('info').then(Boolean, () => false)
    await waitUntil(answers, 20_000, 'the docker daemon answers')
    importImage(folder, socket)
    return { docker, end }
  } catch (error) {
    await end()
    throw error
  }
}

/** An image that contains only the mount points of the machine's folders. */
function importImage(folder: string, socket: string): void {
  const files = join(folder, 'image')
  for (const name of ['proc', 'sys', 'dev', 'tmp', 'root', 'usr', 'etc', 'opt']) mkdirSync(join(files, name), { recursive: true })
  for (const name of ['bin', 'sbin', 'lib', 'lib64']) symlinkSync(`usr/${name}`, join(files, name))
  const tar = spawnSync('tar', ['-C', files, '-c', '.'], { maxBuffer: 1 << 26 })
  const done = spawnSync('docker', ['--host', `unix://${socket}`, 'import', '-', image], { input: tar.stdout })
  if (done.status !== 0) throw new Error(`The image could not be created: ${String(done.stderr)}`)
}
