import { readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { planInside, planWorkspace } from '../../../src/agents/workspace.ts'
import type { Planned } from '../../../src/core/ports/kind.ts'
import type { ProcessLaunch } from '../../../src/core/ports/process.ts'
import { temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import { openSupervisor, type TestSupervisor } from '../../support/supervisor.ts'

/**
 * The ledger stores the name of a kind and the spec of a resource. A later version adopts and recovers what this one stored, so both stay
 * as they are: the golden file is of version 0.1.0. A new optional part of a spec is added to it; nothing in it is changed or removed.
 */

const scopeId = '0f1e2d3c-4b5a-4678-9abc-def012345678'
const golden: Readonly<Record<string, unknown>> = JSON.parse(
  readFileSync(join(import.meta.dirname, '..', '..', 'fixtures', 'golden', 'stored-plans.json'), 'utf8'),
)
const settings = {
  containment: 'scan',
  dockerImage: 'image',
  remoteUrl: 'http://127.0.0.1:1',
  ecsCluster: 'cluster',
  ecsTaskDefinition: 'definition',
  ecsSubnets: 'subnet',
  ecsBucket: 'bucket',
  ecsTargetGroup: 'arn:group',
  ecsRegion: 'eu-central-1',
}
const workspace = { base: '/base', path: '.agent-workspace/TASK-1', agentName: 'builder-1' }

function launchInto(placement: string, more: Partial<ProcessLaunch> = {}): ProcessLaunch {
  return {
    placement,
    argv: ['sh', '-c', 'true'],
    env: { PATH: process.env.PATH ?? '' },
    cwd: '/',
    output: 'logs',
    stdin: { text: 'a prompt' },
    name: 'a name',
    config: { name: 'mcp.json', text: '{}' },
    politeSignal: 'SIGINT',
    order: { agentId: scopeId, type: 'command', prompt: 'a prompt', configuration: { limits: { logBytes: 1_000 } } },
    ...more,
  }
}

/** What the ledger stores of a plan, with names in place of what differs between machines and runs. */
function storedOf({ config, host }: TestSupervisor, plan: readonly Planned[]): unknown {
  const text = JSON.stringify(plan.map(({ label, kind, spec, dependsOn, onLoss }) => ({ label, kind, spec, dependsOn, onLoss })))
  const named = [
    [config.home, 'HOME'],
    [tmpdir(), 'TMP'],
    [host.incarnationId, 'INCARNATION'],
    [host.installation, 'INSTALLATION'],
  ] as const
  return JSON.parse(named.reduce((rest, [from, to]) => rest.replaceAll(from, to), text).replaceAll(/"sinceMs":\d+/g, '"sinceMs":0'))
}

const open = (): Promise<TestSupervisor> => openSupervisor({ home: temporaryHome(), flags: settings, watched: false, keepsSessions: true })

describe('the stored plan of an agent', () => {
  it.each(['process', 'docker', 'remote', 'ecs'])('does not change: %s', async (placement) => {
    await using supervisor = await open()
    expect(storedOf(supervisor, supervisor.plan(scopeId, launchInto(placement)))).toEqual(golden[placement])
  })

  it('does not change: with a temp folder and tool leftovers', async () => {
    await using supervisor = await open()
    const leaves = [{ folder: '/folder', name: '.+\\.sh', kin: { name: '{stem}.key', shares: ['a'] } }]
    const plan = supervisor.plan(scopeId, launchInto('process', { hasTempFolder: true, leaves, output: 'inherit', stdin: 'inherit' }))
    expect(storedOf(supervisor, plan)).toEqual(golden['temp folder'])
  })
})

describe('the stored plan of an agent in a terminal', () => {
  needs('tmux')

  it('does not change', async () => {
    await using supervisor = await open()
    expect(storedOf(supervisor, supervisor.plan(scopeId, launchInto('tmux')))).toEqual(golden.tmux)
  })

  it('does not change in the workspace of a task', async () => {
    await using supervisor = await open()
    const task = planWorkspace({ base: '/base', id: 'TASK-1' }, undefined)
    const agent = planInside(workspace, supervisor.plan(scopeId, launchInto('tmux', { workspace })))
    expect(storedOf(supervisor, [...task, ...agent])).toEqual(golden.workspace)
  })
})
