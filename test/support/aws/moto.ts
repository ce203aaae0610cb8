import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { homedir } from 'node:os'
import { join } from 'node:path'

/** moto's server as a child process: the state of one AWS account. scripts/moto.mjs installs it. */

export function motoPython(): string {
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'ebb')
  const wanted = readFileSync(join(import.meta.dirname, 'requirements.txt'))
  return join(cache, `moto-${createHash('sha256').update(wanted).digest('hex').slice(0, 12)}`, 'bin', 'python')
}

export interface Moto extends AsyncDisposable {
  readonly port: number
}

const startWithinMs = 30_000

export async function startMoto(): Promise<Moto> {
  const child = spawn(motoPython(), ['-m', 'moto.server', '-H', '127.0.0.1', '-p', '0'], { stdio: ['ignore', 'pipe', 'pipe'] })
  const port = await listening(child)
  // By default, moto moves a task towards STOPPED with every DescribeTasks. With this setting it does so only after a day.
  const transition = { model_name: 'ecs::task', transition: { progression: 'time', seconds: 86_400 } }
  const headers = { 'content-type': 'application/json' }
  const body = JSON.stringify(transition)
  await fetch(`http://127.0.0.1:${port}/moto-api/state-manager/set-transition`, { method: 'POST', headers, body })
  return {
    port,
    [Symbol.asyncDispose]: async () => {
      const ended = once(child, 'close')
      child.kill('SIGKILL')
      await ended
    },
  }
}

/** Resolves with the port. moto chooses a free port and prints it. */
async function listening(child: ChildProcess): Promise<number> {
  let output = ''
  return await new Promise<number>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`moto did not start: ${output}`)), startWithinMs)
    const onOutput = (chunk: Buffer): void => {
      output += chunk.toString('utf8')
      const port = /Running on http:\/\/127\.0\.0\.1:(\d+)\s/.exec(output)?.[1]
      if (port === undefined) return
      clearTimeout(timer)
      for (const stream of [child.stdout, child.stderr]) stream?.off('data', onOutput).resume()
      resolve(Number(port))
    }
    child.stdout?.on('data', onOutput)
    child.stderr?.on('data', onOutput)
    child.once('close', () => reject(new Error(`moto ended: ${output}`)))
  })
}

export interface HeldPort extends AsyncDisposable {
  readonly port: number
}

/**
 * Reserves a port number for the runners, which listen on other loopback addresses. While the port is held on 127.0.0.1, no other test
 * file gets the same number.
 */
export async function holdPort(): Promise<HeldPort> {
  const server = createServer((socket) => void socket.destroy())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { port: (server.address() as AddressInfo).port, [Symbol.asyncDispose]: async () => await server[Symbol.asyncDispose]() }
}
