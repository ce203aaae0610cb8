import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { median, type Row, sideBySide, timed } from './measure.ts'
import { withServer } from './server.ts'

/** An MCP client deploys agents into tmux and cleans them up, including files, logs, rows and proof. */

const agentsAtOnce = 50

/** The agent writes output and reports, so there are three logs to be archived. */
const script = 'echo working; exec sleep 1000'

export async function benchTmux(): Promise<readonly Row[]> {
  const base = mkdtempSync(join(tmpdir(), 'ebb-bench-'))
  try {
    return await withServer(async ({ url }) => {
      const client = new Client({ name: 'bench', version: '1' })
      await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', url)))
      try {
        return await measure(new Deployments(client, base), base)
      } finally {
        await client.close()
      }
    })
  } finally {
    rmSync(base, { recursive: true, force: true })
  }
}

async function measure(deployments: Deployments, base: string): Promise<readonly Row[]> {
  const bare = new BareTmux(join(base, 'bare.sock'))
  try {
    await deployments.open()
    // A session that stays keeps the bare tmux server running, as an agent that stays keeps Ebb's tmux server running.
    bare.open('stays')
    const stays = await deployments.deploy()
    const cleanups: number[] = []
    const deploy = await sideBySide(
      20,
      async () => {
        const took = await timed(() => bare.open('one'))
        bare.kill('one')
        return took
      },
      async () => {
        let id = ''
        const took = await timed(async () => {
          id = await deployments.deploy()
        })
        await deployments.report(id)
        cleanups.push(await timed(() => deployments.cleanUp(id)))
        return took
      },
    )
    await deployments.cleanUp(stays)
    const ids = await Promise.all(Array.from({ length: agentsAtOnce }, () => deployments.deploy()))
    await Promise.all(ids.map((id) => deployments.report(id)))
    const all = await timed(() => Promise.all(ids.map((id) => deployments.cleanUp(id))))
    return rows(deploy, median(cleanups), all)
  } finally {
    bare.end()
  }
}

function rows(deploy: { readonly baseline: number; readonly ebb: number }, one: number, all: number): readonly Row[] {
  return [
    {
      name: 'deploy into tmux: prompt, logs, session, rows',
      ...deploy,
      unit: 'ms',
      claim: 'new-session + 60 ms',
      kept: deploy.ebb <= deploy.baseline + 60,
    },
    {
      name: 'cleanup of one tmux agent with three logs, proven',
      baseline: 2_000,
      ebb: one,
      unit: 'ms',
      claim: 'under 150 ms (baseline: a cleanup with fixed delays)',
      kept: one < 150,
    },
    { name: `cleanup of ${agentsAtOnce} tmux agents at once`, ebb: all, unit: 'ms', claim: 'under 2 s', kept: all < 2_000 },
  ]
}

class Deployments {
  readonly #client: Client
  readonly #base: string
  #taskId = ''
  #count = 0

  constructor(client: Client, base: string) {
    this.#client = client
    this.#base = base
  }

  async open(): Promise<void> {
    const { task_id } = await this.#call('create_real_task', { description: 'a benchmark', workspace_base: this.#base })
    this.#taskId = task_id as string
  }

  async deploy(): Promise<string> {
    this.#count += 1
    const { agent_id } = await this.#call('deploy_headless_agent', {
      agent_type: 'worker',
      prompt: `number ${this.#count}`,
      provider: 'command',
      command: ['sh', '-c', script],
    })
    return agent_id as string
  }

  async report(id: string): Promise<void> {
    await this.#call('update_agent_progress', { agent_id: id, status: 'working', message: 'half', progress: 50 })
    await this.#call('report_agent_finding', { agent_id: id, finding_type: 'note', severity: 'low', message: 'found' })
  }

  async cleanUp(id: string): Promise<void> {
    await this.#call('cleanup_agent_resources', { agent_id: id })
  }

  async #call(name: string, args: Record<string, unknown>): Promise<Record<string, unknown>> {
    const { structuredContent } = await this.#client.callTool({ name, arguments: { task_id: this.#taskId, ...args } })
    const answer = structuredContent as Record<string, unknown>
    if (answer.success !== true) throw new Error(`${name} failed: ${JSON.stringify(answer)}`)
    return answer
  }
}

class BareTmux {
  readonly #socket: string

  constructor(socket: string) {
    this.#socket = socket
  }

  open(name: string): void {
    this.#tmux('new-session', '-d', '-s', name, 'sh', '-c', script)
  }

  kill(name: string): void {
    this.#tmux('kill-session', '-t', `=${name}`)
  }

  end(): void {
    this.#tmux('kill-server')
  }

  #tmux(...words: readonly string[]): void {
    execFileSync('tmux', ['-S', this.#socket, '-f', '/dev/null', ...words], { stdio: 'ignore' })
  }
}
