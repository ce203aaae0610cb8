import { EbbError, sentence } from '../../core/model/errors.ts'
import { logLabels } from '../../core/ports/agent-log.ts'
import { type Planned, planned } from '../../core/ports/kind.ts'
import type { OtherHost, Placement, SettingCheck } from '../../core/ports/placement.ts'
import { type ProcessLaunch, treeLabel } from '../../core/ports/process.ts'
import type { PlacementParts } from '../definition.ts'
import { type LaunchContext, planFiles } from '../files.ts'
import { type RunnerCall, RunnerDenied, type RunnerQueries, RunnerUnreachable, remoteAgentKind } from './ports.ts'
import { HttpRunnerQueries } from './runner.ts'
import { runnerAgentsOf } from './runner-agents.ts'

/** Placement `remote`: the agent at a runner host, with its output in logs of this host. */

interface RemoteOptions {
  readonly remoteUrl: string | undefined
  readonly remoteToken: string | undefined
}

interface RemoteDeps {
  readonly url: string
  readonly token: string | undefined
  readonly queries: RunnerQueries
}

/** An id that no agent has. The query for it only tests whether the runner grants access. */
const noAgentId = '00000000-0000-4000-8000-000000000000'

export function openRemote({ remoteUrl: url = '', remoteToken: token }: RemoteOptions, parts: PlacementParts): Placement {
  const { clock, context } = parts
  const agents = runnerAgentsOf(parts)
  agents.useRunner(url, token)
  const queries = new HttpRunnerQueries(clock)
  const deps: RemoteDeps = { url, token, queries }
  const call = (signal = new AbortController().signal): RunnerCall => ({ place: { url }, token, signal })
  return {
    name: 'remote',
    kinds: [agents.kind],
    plan: (scopeId, launch) => planRemote(context, url, scopeId, launch),
    requireReady: async () => {
      try {
        await queries.health(call())
        // A runner may answer health checks without a token, so the status of an agent is queried, too.
        await queries.status(call(), noAgentId)
      } catch (error) {
        throw new EbbError('launch_refused', `${sentence(error)} Nothing was launched; check remote.url and remote.token.`, {
          cause: error,
        })
      }
    },
    host: () => observeHost(queries, url, call),
    check: () => check(deps, call),
  }
}

async function check({ queries, url, token }: RemoteDeps, call: () => RunnerCall): Promise<readonly SettingCheck[]> {
  const address = await tryOut('remote.url', async () => {
    const { activeAgents } = await queries.health(call())
    return `The runner at ${url} answers, with ${activeAgents} agents.`
  })
  const setting = 'remote.token'
  try {
    await queries.status(call(), noAgentId)
    return [
      address,
      { setting, isGood: true, says: token === undefined ? 'Not set, and the runner requires none.' : 'The runner accepts it.' },
    ]
  } catch (error) {
    if (error instanceof RunnerDenied) return [address, { setting, isGood: false, says: sentence(error) }]
    // An error other than denied access is not about the token. The health check may have been answered by another server, such as Ebb's
    // control plane, which has one below /api.
    return [address.isGood ? { ...address, isGood: false, says: withHint(sentence(error), url) } : address]
  }
}

/** Adds a hint to an error message when the configured address of the runner has a path. */
function withHint(problem: string, url: string): string {
  const { origin, pathname } = new URL(url)
  if (pathname === '/') return problem
  return `${problem} A runner of Ebb answers at the root of its address: set remote.url to ${origin}, without ${pathname}.`
}

/** The timeout for observing a runner host, which is short because a dashboard page waits for the observation. */
const hostMs = 2_000

/** Observes the runner host. `well` means that an agent can be launched on that host. */
async function observeHost(queries: RunnerQueries, url: string, call: (signal: AbortSignal) => RunnerCall): Promise<OtherHost> {
  const known = { name: new URL(url).host, role: 'runner', url } as const
  const deadline = AbortSignal.timeout(hostMs)
  try {
    const { activeAgents } = await queries.health(call(deadline))
    await queries.status(call(deadline), noAgentId)
    return { ...known, status: 'well', activeAgents }
  } catch (error) {
    if (deadline.aborted) return { ...known, status: 'unreachable', says: `The runner did not answer within ${hostMs / 1_000} s.` }
    return { ...known, status: error instanceof RunnerUnreachable ? 'unreachable' : 'broken', says: sentence(error) }
  }
}

async function tryOut(setting: string, attempt: () => Promise<string>): Promise<SettingCheck> {
  try {
    return { setting, isGood: true, says: await attempt() }
  } catch (error) {
    return { setting, isGood: false, says: sentence(error) }
  }
}

/**
 * The agent depends on its logs, which are read to their end after it is gone. It never outlives this process, because the closed
 * connection stops it.
 */
function planRemote(context: LaunchContext, url: string, scopeId: string, launch: ProcessLaunch): readonly Planned[] {
  if (launch.workspace)
    throw new EbbError(
      'launch_refused',
      'An agent of a task works in the folder of the task, which is not on the runner host; use another placement.',
    )
  if (!launch.order) throw new EbbError('launch_refused', 'The placement remote runs agents, not commands; use the placement process.')
  const { config: _written, ...rest } = launch
  const logs = planFiles(context, scopeId, { ...rest, output: 'logs' }, 'follower')
  const agent = planned({
    label: treeLabel,
    kind: remoteAgentKind,
    spec: { installation: context.installation, url },
    live: { order: launch.order },
    dependsOn: logLabels,
  })
  return [...logs, agent]
}
