import { spawn } from 'node:child_process'
import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { ebb, ebbProgram, nodeProgram, type RunningEbb, root, startEbb, temporaryHome } from '../../support/home.ts'
import { installationOf } from '../../support/ledger-file.ts'
import { currentMark, markVariable } from '../../support/mark.ts'
import { mcpOverStdio } from '../../support/mcp.ts'
import { needs } from '../../support/real.ts'
import { type Json, startServer } from '../../support/server.ts'
import { agentProcesses } from '../../support/shared-server.ts'
import { cgroupsOf, seen, waitUntil } from '../../support/world.ts'

needs('tmux')

/** An `ebb mcp` with its own engine closes everything it deployed when its client goes, however that happens. */

const sleeper = {
  agent_type: 'sleeper',
  provider: 'command',
  placement: 'process',
  command: ['sh', '-c', 'setsid sleep 1000 & exec sleep 1000'],
}

const line = (message: object): string => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`
const hello = line({
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
})

/** Starts `ebb mcp` without a client library, so that the test sees its exit and every byte of its output. */
async function raw(
  home: string,
  words: readonly string[] = [],
): Promise<{ run: RunningEbb; call(name: string, args: object): Promise<Json> }> {
  const run = startEbb(['mcp', ...words], { home, cwd: home, deadlineMs: 120_000 })
  let calls = 0
  const say = (text: string): void => void run.child.stdin?.write(text)
  const messages = (): Json[] =>
    run
      .output()
      .split('\n')
      .slice(0, -1)
      .map((text) => JSON.parse(text))
  const answerTo = async (id: number): Promise<Json> => {
    await waitUntil(() => messages().some((message) => message.id === id), 30_000, `call ${id} is answered`)
    return messages().find((message) => message.id === id)
  }
  say(hello)
  await answerTo(0)
  say(line({ method: 'notifications/initialized' }))
  return {
    run,
    call: async (name, args) => {
      const id = ++calls
      say(line({ id, method: 'tools/call', params: { name, arguments: args } }))
      return (await answerTo(id)).result.structuredContent
    },
  }
}

async function rawWithAgents(home: string, words?: readonly string[]): Promise<RunningEbb> {
  const { run, call } = await raw(home, words)
  const { task_id } = await call('create_real_task', { description: 'Two that sleep' })
  for (const placement of ['process', 'tmux'])
    expect(await call('deploy_headless_agent', { ...sleeper, task_id, prompt: placement, placement })).toMatchObject({ success: true })
  await waitUntil(() => sleeping(home) >= 4, 30_000, 'all of them sleep')
  return run
}

/** Counts sleeping processes. Each of two agents sleeps and has a sleeping child in a session of its own. */
function sleeping(home: string): number {
  return agentProcesses(home).filter((one) => one.includes('sleep 1000')).length
}

const isClean = (home: string): readonly unknown[] => [...agentProcesses(home), ...cgroupsOf(installationOf(home) ?? 'none')]

describe('ebb mcp with its own engine', () => {
  it('at the end of standard input closes everything, proven, and exits with 0', async () => {
    const home = temporaryHome()
    const run = await rawWithAgents(home, ['--log-level', 'debug'])
    run.endInput()
    const { code, stdout, stderr } = await run.ended
    expect([code, isClean(home)]).toEqual([0, []])
    // Standard output contains only the protocol.
    for (const text of stdout.toString().trim().split('\n')) expect(JSON.parse(text)).toMatchObject({ jsonrpc: '2.0' })
    expect(stderr).toMatch(/Cleanup:/)
  })

  /** Starts `ebb mcp` with one agent that runs the script. */
  async function rawWithOne(home: string, script: string): Promise<RunningEbb> {
    const { run, call } = await raw(home)
    const { task_id } = await call('create_real_task', { description: 'Stubborn' })
    const command = ['sh', '-c', script]
    const { agent_id } = await call('deploy_headless_agent', { ...sleeper, task_id, prompt: 'p', command })
    while ((await call('get_agent_output', { task_id, agent_id })).output.length === 0);
    return run
  }

  /** The steps that ended the agent's processes, from the report. */
  function stepsIn(home: string): Json[] {
    using contents = new DatabaseSync(join(home, 'ebb.db'), { readOnly: true })
    const [row] = contents.prepare(`SELECT body FROM report WHERE body LIKE '%process-exit%process-tree%'`).all()
    const { resources } = JSON.parse(String(row?.body)) as Json
    return resources.find(({ kind }: Json) => kind === 'process-tree').steps
  }

  it('at a signal closes everything, proven, and exits with 0', async () => {
    const home = temporaryHome()
    const run = await rawWithOne(home, 'echo ready; exec sleep 1000')
    run.signal('SIGHUP')
    expect([(await run.ended).code, isClean(home)]).toEqual([0, []])
  })

  it('at a signal after the end of standard input kills agents that do not exit', async () => {
    const home = temporaryHome()
    const run = await rawWithOne(home, 'trap "" TERM INT HUP; echo ready; while :; do sleep 1000; done')
    run.endInput()
    await waitUntil(() => run.child.stdin?.writableFinished === true, 30_000, 'the input is closed')
    run.signal('SIGTERM')
    expect([(await run.ended).code, isClean(home)]).toEqual([0, []])
    // Without the second signal, the agent would have two seconds between SIGTERM and the kill.
    const steps = stepsIn(home)
    expect(steps.at(-1).step).toBe('kill')
    expect(steps.find(({ step }) => step === 'terminate')?.took ?? 0).toBeLessThan(1_900)
  })

  it('at a signal before the end of standard input, as at Ctrl-C, stops once and gives agents their grace', async () => {
    const home = temporaryHome()
    const asked = join(home, 'asked')
    const run = await rawWithOne(home, `trap 'touch "${asked}"; sleep 0.5; exit 0' TERM INT; echo ready; while :; do sleep 0.05; done`)
    run.signal('SIGINT')
    await waitUntil(() => existsSync(asked), 30_000, 'the agent is asked to leave')
    run.endInput()
    expect([(await run.ended).code, isClean(home)]).toEqual([0, []])
    expect(stepsIn(home).map(({ step }) => step)).not.toContain('kill')
  })

  it('names what cannot be released, and exits with 3', async () => {
    const home = temporaryHome()
    const { run, call } = await raw(home)
    const { task_id, workspace } = await call('create_real_task', { description: 'Owed' })
    const { agent_id } = await call('deploy_headless_agent', {
      ...sleeper,
      task_id,
      prompt: 'p',
      command: ['sh', '-c', 'echo one; sleep 1000'],
    })
    while ((await call('get_agent_output', { task_id, agent_id })).output.length === 0);
    // A foreign file stands where the archive folder should be.
    writeFileSync(join(workspace, 'archive'), '')
    run.endInput()
    const { code, stderr } = await run.ended
    expect([code, stderr]).toEqual([3, expect.stringMatching(/not everything could be released.*\n(.*\n)*.*_stream\.jsonl/)])
    expect(sleeping(home)).toBe(0)
    rmSync(join(workspace, 'archive'))
    await ebb(['recover'], { home })
    await waitUntil(() => isClean(home), 15_000, 'the rest is gone, too')
    expect(readdirSync(join(workspace, 'archive'))).toEqual([`${agent_id}_stream.jsonl`])
  })

  it('closes everything when its client is killed', async () => {
    const home = temporaryHome()
    const env = { ...process.env, EBB_HOME: home, [markVariable]: currentMark() }
    const client = spawn(nodeProgram, [join(root, 'test', 'fixtures', 'deploys-over-mcp.ts'), ebbProgram], {
      env,
      cwd: home,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const { pid } = await new Promise<{ pid: number }>((resolve) => {
      createInterface(client.stdout).once('line', (text) => resolve(JSON.parse(text)))
    })
    await waitUntil(() => sleeping(home) >= 4, 30_000, 'all of them sleep')
    client.kill('SIGKILL')
    await waitUntil(() => (seen(pid) ? [pid] : isClean(home)), 15_000, 'ebb mcp and everything of it is gone')
  })

  it('is killed: the sentinel ends its agents', async () => {
    const home = temporaryHome()
    const run = await rawWithAgents(home)
    run.signal('SIGKILL')
    await run.ended
    await waitUntil(() => isClean(home), 15_000, 'everything of it is gone')
  })

  it('ignores lines that are not MCP, answers the next call, and exits at an endless line', async () => {
    const home = temporaryHome()
    const { run, call } = await raw(home)
    run.child.stdin?.write('no JSON at all\n{"jsonrpc":"1.0"}\n[]\n')
    expect(await call('get_cleanup_status', {})).toMatchObject({ isClean: true })
    run.child.stdin?.write('x'.repeat(11_000_000))
    expect((await run.ended).code).toBe(0)
  })
})

describe('ebb mcp through a server', () => {
  it('leaves the agents to the server when its client goes, and ends its session', async () => {
    await using server = await startServer()
    const { hostname, port } = new URL(server.url)
    const seenMethods: string[] = []
    const between = createServer((call, answer) => {
      const headers = { ...call.headers, host: `${hostname}:${port}` }
      const on = request({ hostname, port, path: call.url, method: call.method, headers }, (came) => {
        seenMethods.push(`${call.method} ${came.statusCode}`)
        answer.writeHead(came.statusCode ?? 0, came.headers)
        came.pipe(answer)
      })
      on.on('error', () => answer.destroy())
      call.pipe(on)
    })
    await new Promise<void>((resolve) => between.listen(0, '127.0.0.1', resolve))
    const { port: own } = between.address() as AddressInfo
    const run = await rawWithAgents(server.home, ['--url', `http://127.0.0.1:${own}`])
    run.endInput()
    expect((await run.ended).code).toBe(0)
    expect(seenMethods.at(-1)).toBe('DELETE 200')
    between.closeAllConnections()
    between.close()
    expect(sleeping(server.home)).toBeGreaterThanOrEqual(4)
    expect(await server.post('/api/test/reset-environment', { force: true })).toMatchObject({ success: true })
  })

  it('answers waiting calls with an error when the server goes away; the next call opens a session at another server', async () => {
    const home = temporaryHome()
    const first = await startServer([], { home })
    await using mcp = await mcpOverStdio({ home, cwd: home })
    const { task_id } = await mcp.call('create_real_task', { description: 'Lost' })
    const stubborn = ['sh', '-c', 'trap "" TERM; echo ready; while :; do sleep 1000; done']
    const { agent_id } = await mcp.call('deploy_headless_agent', { ...sleeper, task_id, prompt: 'p', command: stubborn })
    while ((await mcp.call('get_agent_output', { task_id, agent_id })).output.length === 0);
    const begun = Promise.withResolvers<void>()
    const killing = mcp.call('kill_real_agent', { task_id, agent_id }, { onprogress: () => begun.resolve() })
    killing.catch(() => {})
    await begun.promise
    first.ebb.signal('SIGKILL')
    await expect(killing).rejects.toThrow(/went away before it answered/)
    await first.ebb.ended
    await expect(mcp.call('get_cleanup_status')).rejects.toThrow(/start another one with: ebb serve|does not answer/)
    const second = await startServer([], { home })
    expect(await mcp.call('get_cleanup_status')).toMatchObject({ leaks: [] })
    expect(second.url).not.toBe(first.url)
    expect(await mcp.call('get_real_task_status', { task_id })).toMatchObject({ success: true, agents: { active: 0 } })
    // The third server has the address of the second one, and does not know the MCP session.
    await second.stop()
    await using third = await startServer(['--port', new URL(second.url).port], { home })
    expect(third.url).toBe(second.url)
    expect(await mcp.call('get_real_task_status', { task_id })).toMatchObject({ success: true })
  })
})
