import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { nodeProgram, root, temporaryHome } from '../../support/home.ts'
import { type McpClient, mcpOverHttp, mcpOverStdio } from '../../support/mcp.ts'
import { needs } from '../../support/real.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'
import { agentProcesses } from '../../support/shared-server.ts'
import { waitUntil } from '../../support/world.ts'

/** Every MCP tool, called by the official client over both transports and both revisions of the protocol. */

needs('tmux')

let server: TestServer

beforeAll(async () => {
  server = await startServer()
})

afterAll(async () => await server.stop())

interface Place {
  readonly mcp: McpClient
  /** The home folder that contains the database. */
  readonly home: string
  readonly cwd: string
}

async function overHttp(is2026: boolean): Promise<Place> {
  const cwd = temporaryHome()
  return { mcp: await mcpOverHttp(server.url, { is2026, headers: { 'X-Ebb-Cwd': encodeURIComponent(cwd) } }), home: server.home, cwd }
}

async function overStdio(home: string, is2026: boolean): Promise<Place> {
  const cwd = temporaryHome()
  return { mcp: await mcpOverStdio({ home, cwd, is2026 }), home, cwd }
}

const ways: readonly (readonly [string, () => Promise<Place>])[] = [
  ['HTTP, with a session', () => overHttp(false)],
  ['HTTP, revision 2026-07-28', () => overHttp(true)],
  ['stdio, through the running server', () => overStdio(server.home, false)],
  ['stdio, through the running server, revision 2026-07-28', () => overStdio(server.home, true)],
  ['stdio, with an engine of its own', () => overStdio(temporaryHome(), false)],
  ['stdio, with an engine of its own, revision 2026-07-28', () => overStdio(temporaryHome(), true)],
]

const asCommand = (script: string): object => ({ provider: 'command', placement: 'process', command: ['sh', '-c', script] })
const sleeper = asCommand('cat; echo; echo ready; exec sleep 1000')
const callsBack = (...words: readonly string[]): object => ({
  provider: 'command',
  command: [nodeProgram, join(root, 'test', 'fixtures', 'calls-back-over-mcp.ts'), ...words],
})

/** Call options that request progress notifications. The test reads the notifications from the connection. */
const withProgress = { onprogress: () => {} }

/** Returns the progress of the last call that received notifications. */
function stepsOf({ progress: notifications }: McpClient): string {
  const last = notifications.filter(({ progressToken }) => progressToken === notifications.at(-1).progressToken)
  return last.map(({ progress, total }) => `${progress}/${total}`).join(' ')
}

/** Reads the output of an agent until it contains the text. The tool `get_agent_output` cannot wait for output. */
async function outputOf({ mcp }: Place, task_id: string, agent_id: string, text: string): Promise<readonly string[]> {
  const lines: string[] = []
  let since = 0
  const hasIt = async (): Promise<boolean> => {
    const answer = await mcp.call('get_agent_output', { task_id, agent_id, since })
    lines.push(...answer.output)
    since = answer.next
    return lines.some((line) => line.includes(text))
  }
  await waitUntil(hasIt, 20_000, `the agent says "${text}"`)
  return lines
}

async function statusWhen({ mcp }: Place, task_id: string, isThere: (status: Json) => boolean): Promise<Json> {
  let status: Json
  const hasComeToThat = async (): Promise<readonly Json[]> => {
    status = await mcp.call('get_real_task_status', { task_id })
    return isThere(status) ? [] : [status]
  }
  await waitUntil(hasComeToThat, 20_000, 'the task comes to that')
  return status
}

describe.each(ways)('MCP tools over %s', (way, open) => {
  let place: Place
  let mcp: McpClient

  beforeAll(async () => {
    place = await open()
    mcp = place.mcp
  })

  afterAll(async () => await mcp.close())

  it('a task with two agents: deploy, read, kill one, complete, and nothing is left', async () => {
    const task = await mcp.call('create_real_task', { description: 'Find the flaky test', priority: 'P1' })
    expect(task).toMatchObject({ success: true, task_id: expect.stringMatching(/^TASK-\d{8}-\d{6}-[0-9a-f]{8}$/), status: 'active' })
    const { task_id } = task
    expect(task.workspace).toBe(join(place.cwd, '.agent-workspace', task_id))

    const request = { task_id, agent_type: 'finder', prompt: 'Look.', ...sleeper, placement: undefined }
    const one = await mcp.call('deploy_headless_agent', request, withProgress)
    expect(one).toMatchObject({ success: true, agent_id: expect.stringMatching(/^finder-\d{6}-[0-9a-f]{6}$/), status: 'running' })
    const session = { tmux_session: `agent_${one.agent_id}`, tmux_socket: join(place.home, 'tmux.sock') }
    expect(one).toMatchObject({ ...session, placement: 'tmux', workspace: task.workspace })
    expect(stepsOf(mcp)).toBe('1/2 2/2')
    expect(await mcp.call('deploy_headless_agent', request)).toMatchObject({ agent_id: one.agent_id, deduplicated: true })
    const two = await mcp.call('spawn_child_agent', {
      task_id,
      parent_agent_id: one.agent_id,
      child_agent_type: 'helper',
      child_prompt: 'Help.',
      ...sleeper,
    })
    expect(two).toMatchObject({ success: true, agent_id: expect.stringMatching(/^helper-/), tmux_session: null, tmux_socket: null })

    await outputOf(place, task_id, one.agent_id, 'ready')
    const lines = await outputOf(place, task_id, two.agent_id, 'ready')
    expect(lines).toContain('Help.')
    expect(await mcp.call('get_agent_output', { task_id, agent_id: two.agent_uuid, tail: 1 })).toMatchObject({ output: ['ready'] })

    expect(await mcp.call('get_real_task_status', { task_id })).toMatchObject({
      description: 'Find the flaky test',
      status: 'active',
      agents: { total_spawned: 2, active: 2, completed: 0, agents_list: [{ agent_id: one.agent_id, depth: 1 }, { depth: 2 }] },
      hierarchy: [{ agent_id: one.agent_id, children: [{ agent_id: two.agent_id }] }],
      limits: { task_concurrent: { used: 2 } },
    })

    const kill = { task_id, agent_id: one.agent_id, reason: 'Not needed', cascade: false }
    const killed = await mcp.call('kill_real_agent', kill, withProgress)
    expect(killed).toMatchObject({ success: true, agent_id: one.agent_id, reason: 'Not needed', cleanup: { verified_no_zombies: true } })
    // The kill does not wait until the number of its steps is counted, so the first notification may be missing.
    expect(['0/1 1/1', '1/1']).toContain(stepsOf(mcp))
    expect(await mcp.call('cleanup_agent_resources', { task_id, agent_id: one.agent_id })).toMatchObject({
      success: true,
      tmux_session_killed: true,
      prompt_file_deleted: true,
      log_files_archived: true,
      verified_no_zombies: true,
      errors: [],
      archived_files: [expect.stringMatching(/\/archive\/finder-.*_stream\.jsonl$/)],
      report: { success: true, trigger: 'terminated' },
    })
    expect(await outputOf(place, task_id, one.agent_id, 'ready')).toContain('Look.')
    expect(await mcp.call('get_cleanup_status')).toMatchObject({ isClean: false, leaks: [], stuck: [], heldBack: [] })

    const completed = await mcp.call('complete_real_task', { task_id })
    expect(completed).toMatchObject({ success: true, report: { success: true, trigger: 'request-finished' } })
    expect(await mcp.call('get_cleanup_status')).toMatchObject({ runningProcesses: 0, resources: {}, leaks: [], stuck: [] })
    expect(await mcp.call('get_real_task_status', { task_id })).toMatchObject({
      status: 'completed',
      agents: { active: 0, agents_list: [{ completion_validation: { valid: false, warnings: expect.any(Array) } }, {}] },
    })
    expect(readdirSync(task.workspace)).toEqual(['archive'])
    expect(await mcp.call('deploy_headless_agent', request)).toMatchObject({ success: false, cleanup_performed: true })
  })

  it('a deployment that is cancelled during its launch leaves nothing', async () => {
    const { task_id } = await mcp.call('create_real_task', { description: 'Cancelled' })
    const request = { task_id, agent_type: 'one', prompt: 'p', ...sleeper }
    // With the database locked no intent can be written, so the launch waits.
    using database = new DatabaseSync(join(place.home, 'ebb.db'), { timeout: 5_000 })
    database.exec('BEGIN IMMEDIATE')
    const cancel = new AbortController()
    const deploying = mcp.call('deploy_headless_agent', request, { signal: cancel.signal })
    await statusWhen(place, task_id, ({ limits }) => limits.task_concurrent.used === 1)
    cancel.abort()
    await expect(deploying).rejects.toThrow()
    // An answered status call shows that the server has received the cancellation, which was sent before.
    await mcp.call('get_real_task_status', { task_id })
    database.exec('ROLLBACK')
    await statusWhen(place, task_id, ({ limits, agents }) => limits.task_concurrent.used === 0 || agents.total_spawned === 1)
    const agent = await mcp.call('deploy_headless_agent', request)
    expect(agent).toMatchObject({ success: true })
    expect(agent).not.toHaveProperty('deduplicated')
    expect((await mcp.call('get_real_task_status', { task_id })).agents).toMatchObject({ total_spawned: 1, active: 1 })
    expect(await mcp.call('complete_real_task', { task_id })).toMatchObject({ success: true })
  })

  it('a kill that is cancelled goes on', async () => {
    const { task_id } = await mcp.call('create_real_task', { description: 'Killed' })
    // The agent exits only after the kill was cancelled, so the kill cannot be answered before the cancellation.
    const gate = join(temporaryHome(), 'gate')
    const stubborn = asCommand(`trap "until [ -e ${gate} ]; do sleep 0.01; done; exit" TERM; echo ready; while :; do sleep 0.05; done`)
    const { agent_id } = await mcp.call('deploy_headless_agent', { task_id, agent_type: 'one', prompt: 'p', ...stubborn })
    await outputOf(place, task_id, agent_id, 'ready')
    const cancel = new AbortController()
    const killing = mcp.call('kill_real_agent', { task_id, agent_id }, { signal: cancel.signal, onprogress: () => cancel.abort() })
    await expect(killing).rejects.toThrow()
    writeFileSync(gate, '')
    await statusWhen(place, task_id, ({ agents }) => agents.active === 0)
    expect(await mcp.call('complete_real_task', { task_id })).toMatchObject({ success: true })
  })

  // The tests below do not depend on the revision of the protocol, so they run for one revision only.
  if (way.includes('2026')) return

  it('errors name bad arguments, unknown ids, unknown tools and refused launches', async () => {
    const cwd = temporaryHome()
    const { task_id } = await mcp.call('create_real_task', { description: 'Wrong', client_cwd: cwd })
    const deploy = { task_id, agent_type: 'one', prompt: 'p', ...sleeper }
    const bad = { success: false, code: 'invalid_request' }
    expect(await mcp.call('create_real_task')).toMatchObject({
      ...bad,
      error: expect.stringMatching(/^The arguments are invalid: description .*\.$/),
      details: [{ path: 'description' }],
    })
    const { error } = await mcp.call('create_real_task', { description: 'd', client_cwd: 'here' })
    expect(error).toMatch(/client_cwd must be an absolute path/)
    for (const [path, wrong] of [
      ['agent_type', { agent_type: '../x' }],
      ['prompt', { prompt: '' }],
      ['command', { command: 'sh' }],
    ] as const)
      expect(await mcp.call('deploy_headless_agent', { ...deploy, ...wrong })).toMatchObject({
        ...bad,
        error: expect.stringMatching(path),
        cleanup_performed: true,
      })
    for (const { name } of (await mcp.client.listTools()).tools)
      if (name !== 'get_cleanup_status') expect(await mcp.call(name, { task_id: 7 }), name).toMatchObject(bad)
    expect(await mcp.call('create_real_task', { description: 'd', workspace_base: join(cwd, 'nowhere') })).toMatchObject({
      success: false,
      error: expect.stringMatching(/nowhere/),
    })
    const unknown = 'TASK-20200101-000000-00000000'
    for (const [name, args] of [
      ['get_real_task_status', {}],
      ['complete_real_task', {}],
      ['get_agent_output', { agent_id: 'a' }],
      ['kill_real_agent', { agent_id: 'a' }],
      ['cleanup_agent_resources', { agent_id: 'a' }],
      ['update_agent_progress', { agent_id: 'a', status: 's', message: 'm' }],
      ['report_agent_finding', { agent_id: 'a', finding_type: 't', severity: 's', message: 'm' }],
    ] as const) {
      const answer = await mcp.call(name, { task_id: unknown, ...args })
      expect(answer, name).toMatchObject({ success: false, code: 'task_not_found', error: expect.stringMatching(unknown) })
    }
    expect(await mcp.call('kill_real_agent', { task_id, agent_id: 'nobody' })).toMatchObject({ success: false, code: 'agent_not_found' })
    const refused = { success: false, cleanup_performed: true, error: expect.any(String) }
    expect(await mcp.call('deploy_headless_agent', { ...deploy, task_id: unknown })).toMatchObject({ ...refused, code: 'task_not_found' })
    expect(await mcp.call('deploy_headless_agent', { ...deploy, command: ['no-such-program'] })).toMatchObject({
      ...refused,
      code: 'launch_refused',
    })
    expect(await mcp.call('deploy_headless_agent', { ...deploy, provider: 'nobody' })).toMatchObject(refused)
    await expect(mcp.call('no_such_tool')).rejects.toThrow(/no_such_tool/)
    expect(await mcp.call('complete_real_task', { task_id })).toMatchObject({ success: true })
    expect(existsSync(join(cwd, '.agent-workspace'))).toBe(false)
  })

  it('tasks are listed as resources, and every tool and argument has a description', async () => {
    const { client } = mcp
    const { task_id } = await mcp.call('create_real_task', { description: 'Listed' })
    const uri = `task://${task_id}/status`
    const read = async (uri: string): Promise<Json> => {
      const [content] = (await client.readResource({ uri })).contents as readonly { readonly text: string }[]
      return JSON.parse(content?.text ?? '')
    }
    expect((await read('tasks://list')).tasks[0]).toMatchObject({ task_id, description: 'Listed', status: 'active' })
    expect(await read(uri)).toEqual(await mcp.call('get_real_task_status', { task_id }))
    expect((await client.listResources()).resources.map((resource) => resource.uri)).toEqual(expect.arrayContaining(['tasks://list', uri]))
    expect((await client.listResourceTemplates()).resourceTemplates).toMatchObject([{ uriTemplate: 'task://{task_id}/status' }])
    await expect(read('task://TASK-20200101-000000-00000000/status')).rejects.toThrow(/There is no task/)
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name).toSorted()).toEqual([
      'cleanup_agent_resources',
      'complete_real_task',
      'create_real_task',
      'deploy_headless_agent',
      'get_agent_output',
      'get_cleanup_status',
      'get_real_task_status',
      'kill_real_agent',
      'report_agent_finding',
      'spawn_child_agent',
      'update_agent_progress',
    ])
    for (const { name, description, inputSchema, annotations } of tools) {
      expect(description, name).toMatch(/\.$/)
      expect(annotations, name).toMatchObject({ readOnlyHint: name.startsWith('get_') })
      for (const [argument, schema] of Object.entries(inputSchema.properties ?? {}))
        expect((schema as Json).description, `${name}.${argument}`).toEqual(expect.any(String))
    }
    await mcp.call('complete_real_task', { task_id })
  })

  // The tests below already run against the same server over HTTP, so they do not run again over stdio.
  if (way.includes('running server')) return

  it('an agent reports through its own MCP configuration, within its rights', async () => {
    const { task_id, workspace } = await mcp.call('create_real_task', { description: 'Report' })
    const other = await mcp.call('deploy_headless_agent', { task_id, agent_type: 'other', prompt: 'Sleep.', ...sleeper })
    const words = [
      'update_agent_progress {"status":"working","message":"Half of it","progress":50}',
      'report_agent_finding {"finding_type":"issue","severity":"high","message":"It leaks","data":{"line":7}}',
      // The next calls are for another agent, or are calls that an agent may not make.
      `update_agent_progress ${JSON.stringify({ agent_id: other.agent_id, status: 'working', message: 'In your name' })}`,
      `kill_real_agent ${JSON.stringify({ agent_id: other.agent_id })}`,
      'create_real_task {"description":"Mine"}',
      'complete_real_task',
      'get_cleanup_status',
      'update_agent_progress {"status":"completed","message":"All of it","progress":100}',
    ]
    const agent = await mcp.call('deploy_headless_agent', { task_id, agent_type: 'reporter', prompt: 'Report.', ...callsBack(...words) })
    const status = await statusWhen(place, task_id, ({ agents }) => agents.agents_list[1].completed_at !== undefined)
    const refused = { success: false, code: 'forbidden', error: expect.any(String) }
    const { output } = await mcp.call('get_agent_output', { task_id, agent_id: agent.agent_id })
    expect(output.map((line: string) => JSON.parse(line))).toMatchObject([
      { success: true, own_update: true },
      { success: true, own_finding: true },
      refused,
      refused,
      refused,
      refused,
      refused,
      { success: true, own_update: true, cleanup: { scheduled: true, by: expect.stringMatching(/Z$/) } },
    ])
    expect(status.agents.agents_list[1]).toMatchObject({
      status: 'completed',
      last_progress: { status: 'completed', progress: 100 },
      findings: 1,
      completion_validation: { valid: true, warnings: [] },
    })
    expect(await mcp.call('cleanup_agent_resources', { task_id, agent_id: agent.agent_id, keep_logs: false })).toMatchObject({
      success: true,
      archived_files: [],
    })
    expect(await mcp.call('complete_real_task', { task_id })).toMatchObject({ success: true })
    expect(readdirSync(join(workspace, 'archive'))).toEqual([expect.stringMatching(/^other-/)])
  })
})

it('two clients with their own engines: the end of one does not end the agents of the other', async () => {
  const home = temporaryHome()
  await using one = await mcpOverStdio({ home, cwd: home })
  await using two = await mcpOverStdio({ home, cwd: home })
  const sleeping = (): number => agentProcesses(home).filter((one) => one.endsWith('sleep 1000')).length
  for (const mcp of [one, two]) {
    const { task_id } = await mcp.call('create_real_task', { description: 'A window' })
    await mcp.call('deploy_headless_agent', { task_id, agent_type: 'a', prompt: 'p', ...asCommand('exec sleep 1000') })
  }
  // A deployment succeeds when the shell runs, which may be before it executes sleep(1).
  await waitUntil(() => sleeping() === 2, 30_000, 'both agents sleep')
  await two.close()
  expect(sleeping()).toBe(1)
  expect((await one.call('get_cleanup_status')).runningProcesses).toBe(1)
})
