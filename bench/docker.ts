import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { image, startDockerd, type TestDaemon } from '../test/support/docker.ts'
import { type Row, sideBySide, timed } from './measure.ts'
import { type BenchServer, withServer } from './server.ts'

/**
 * Measures the stop of agents in containers over HTTP, with proof, archive and rows. The baseline is `docker rm -f` of the same container.
 */

const agentsAtOnce = 30
/** The agent prints a line, so that there is output to copy. As the first process of its container the agent ignores SIGTERM. */
const script = 'echo working; exec sleep 1000'
const run = promisify(execFile)

export async function benchDocker(): Promise<readonly Row[]> {
  const daemon = await startDockerd()
  const settings = { docker: { image, host: daemon.host, network: 'none' } }
  const configure = async (home: string): Promise<void> => writeFileSync(join(home, 'ebb.config.json'), JSON.stringify(settings))
  try {
    return await withServer((server) => measure(daemon, server), configure)
  } finally {
    await daemon.end()
  }
}

async function measure(daemon: TestDaemon, server: BenchServer): Promise<readonly Row[]> {
  const bare = new BareDocker(daemon.host)
  const one = await sideBySide(
    15,
    async () => {
      const id = await bare.start()
      return await timed(() => bare.remove([id]))
    },
    async () => {
      const id = await launch(server)
      return await timed(() => stop(server, id))
    },
  )
  const many = await sideBySide(
    3,
    async () => {
      const ids = await Promise.all(Array.from({ length: agentsAtOnce }, () => bare.start()))
      return await timed(() => bare.remove(ids))
    },
    async () => {
      const ids = await Promise.all(Array.from({ length: agentsAtOnce }, () => launch(server)))
      return await timed(() => Promise.all(ids.map((id) => stop(server, id))))
    },
  )
  return [
    {
      name: 'proven stop of a docker agent',
      ...one,
      unit: 'ms',
      claim: '`docker rm -f` + 60 ms',
      kept: one.ebb <= one.baseline + 60,
    },
    {
      name: `proven stop of ${agentsAtOnce} docker agents at once`,
      ...many,
      unit: 'ms',
      claim: 'at most 1.3 × `docker rm -f` of all of them',
      kept: many.ebb <= many.baseline * 1.3,
    },
  ]
}

async function launch(server: BenchServer): Promise<string> {
  const configuration = { command: ['sh', '-c', script] }
  const { id } = await server.post<{ id: string }>('/api/agents', { type: 'command', prompt: '', placement: 'docker', configuration })
  await server.hasMessages(id, 2)
  return id
}

async function stop(server: BenchServer, id: string): Promise<void> {
  const { success } = await server.post<{ success: boolean }>(`/api/agents/${id}/stop`)
  if (!success) throw new Error(`The stop of ${id} was not proven.`)
}

class BareDocker {
  readonly #host: string

  constructor(host: string) {
    this.#host = host
  }

  async start(): Promise<string> {
    return await this.#docker('run', '-d', '--network', 'none', image, 'sh', '-c', script)
  }

  /** Removes the containers with one `docker rm`, which removes them in parallel. */
  async remove(ids: readonly string[]): Promise<void> {
    await this.#docker('rm', '-f', '-v', ...ids)
  }

  async #docker(...words: readonly string[]): Promise<string> {
    return (await run('docker', ['--host', this.#host, ...words])).stdout.trim()
  }
}
