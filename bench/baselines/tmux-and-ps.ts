import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Launch, throughShell } from '../leaks/way.ts'
import { type Algorithm, prescribedDelay } from './algorithms.ts'

const run = promisify(execFile)

/**
 * For one agent after the other: kill the tmux session, wait 0.5 s, delete the prompt, move the logs to an archive, and search `ps aux` for the
 * agent's id and "claude". The first three steps decide about success. The result of `ps` is ignored.
 */
export const tmuxAndPs: Algorithm = {
  name: 'tmux-and-ps',
  title: 'tmux kill-session, 0.5 s, ps',
  how: 'kill-session, 0.5 s, delete the prompt, move the logs, `ps aux` for the id and "claude"; the first three steps decide about success',
  start: async (crew) => {
    const { place, env } = crew.first
    const socket = join(place.own, 'tmux.sock')
    const tmux = (...words: readonly string[]): Promise<unknown> =>
      run('tmux', ['-S', socket, '-f', '/dev/null', ...words], { env: { PATH: env.PATH, TERM: 'xterm' } })
    await tmux('new-session', '-d', '-s', 'stays', 'sleep', '1000')
    const agents = crew.launches.map((launch, index) => new TmuxAgent(`worker-${index}`, launch, tmux))
    for (const agent of agents) await agent.start()
    return {
      cleanUp: async () => {
        let isSuccess = true
        for (const agent of agents) isSuccess = (await agent.cleanUp()) && isSuccess
        return isSuccess
      },
      end: async () => void (await tmux('kill-server')),
    }
  },
}

class TmuxAgent {
  readonly #id: string
  readonly #launch: Launch
  readonly #tmux: (...words: readonly string[]) => Promise<unknown>

  constructor(id: string, launch: Launch, tmux: (...words: readonly string[]) => Promise<unknown>) {
    this.#id = id
    this.#launch = launch
    this.#tmux = tmux
  }

  get #session(): string {
    return `agent_${this.#id}`
  }

  get #prompt(): string {
    return join(this.#launch.place.own, `agent_prompt_${this.#id}.txt`)
  }

  #log(name: string): string {
    return join(this.#launch.place.own, `${this.#id}_${name}.jsonl`)
  }

  async start(): Promise<void> {
    const { place, env } = this.#launch
    writeFileSync(this.#prompt, 'Do what you are told.')
    for (const name of ['stream', 'progress', 'findings']) writeFileSync(this.#log(name), '{}\n')
    const variables = Object.entries(env).flatMap(([name, value]) => ['-e', `${name}=${value}`])
    const piped = ['sh', '-c', '"$@" | tee -a "$0"', this.#log('stream'), ...throughShell(this.#launch)]
    await this.#tmux('new-session', '-d', '-s', this.#session, '-c', place.work, ...variables, ...piped)
  }

  async cleanUp(): Promise<boolean> {
    const isKilled = await this.#killSession()
    if (existsSync(this.#prompt)) unlinkSync(this.#prompt)
    const archived = this.#archive()
    // The result of `ps` does not affect the success of the cleanup.
    await this.#zombies()
    return isKilled && archived > 0
  }

  async #killSession(): Promise<boolean> {
    const isThere = await succeeds(this.#tmux('has-session', '-t', `=${this.#session}`))
    const isKilled = !isThere || (await succeeds(this.#tmux('kill-session', '-t', `=${this.#session}`)))
    await prescribedDelay(500)
    return isKilled
  }

  #archive(): number {
    const archive = join(this.#launch.place.own, 'archive')
    mkdirSync(archive, { recursive: true })
    const logs = ['stream', 'progress', 'findings'].filter((name) => existsSync(this.#log(name)))
    for (const name of logs) renameSync(this.#log(name), join(archive, `${this.#id}_${name}.jsonl`))
    return logs.length
  }

  async #zombies(): Promise<number> {
    const { stdout } = await run('ps', ['aux'], { timeout: 5_000, maxBuffer: 1 << 26 })
    return stdout.split('\n').filter((line) => line.includes(this.#id) && line.toLowerCase().includes('claude')).length
  }
}

function succeeds(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  )
}
