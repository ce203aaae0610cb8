import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { homedir } from 'node:os'
import { join } from 'node:path'

/** moto's server as a child: the state of an AWS account in one process. scripts/moto.mjs has installed it. */

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
  // Else every look at a task moves it towards STOPPED.
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

/** Where: it takes a free port and says which. */
async function listening(child: ChildProcess): Promise<number> {
  let said = ''
  return await new Promise<number>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`moto did not start: ${said}`)), startWithinMs)
    const look = (chunk: Buffer): void => {
      said += chunk.toString('utf8')
      const port = /Running on http:\/\/127\.0\.0\.1:(\d+)\s/.exec(said)?.[1]
      if (port === undefined) return
      clearTimeout(timer)
      for (const stream of [child.stdout, child.stderr]) stream?.off('data', look).resume()
      resolve(Number(port))
    }
    child.stdout?.on('data', look)
    child.stderr?.on('data', look)
    child.once('close', () => reject(new Error(`moto ended: ${said}`)))
  })
}

export interface HeldPort extends AsyncDisposable {
  readonly port: number
}

/** For other addresses of loopback: as long as it is held at this one, no other file is given it for the same addresses. */
export async function holdPort(): Promise<HeldPort> {
  const server = createServer((socket) => void socket.destroy())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { port: (server.address() as AddressInfo).port, [Symbol.asyncDispose]: async () => await server[Symbol.asyncDispose]() }
}
