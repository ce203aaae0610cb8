import { bodyOf, byProvider, type StopReport, startEbbServer } from '../leaks/ways/ebb.ts'
import type { Algorithm } from './algorithms.ts'

/** The jobs of the baselines, run with Ebb through its HTTP API. */

/** Runs the agents as child processes. A reset ends the agents and deletes everything of them. */
export const ebbReset: Algorithm = {
  name: 'ebb-reset',
  title: 'Ebb, reset',
  how: `\`POST /api/test/reset-environment\`; \`success\` in its report; ${byProvider}`,
  start: (crew) => start(crew, {}, '/api/test/reset-environment', {}),
}

/** Runs the agents in tmux. A cleanup ends the agents and archives their logs. */
export const ebbTmux: Algorithm = {
  name: 'ebb-tmux',
  title: 'Ebb, agents in tmux',
  how: 'agents with `"placement": "tmux"`, launched as above, `POST /api/cleanup {"scope": "all"}`; `success` in its report',
  start: (crew) => start(crew, { placement: 'tmux' }, '/api/cleanup', { scope: 'all' }),
}

async function start(
  crew: Parameters<Algorithm['start']>[0],
  more: Readonly<Record<string, unknown>>,
  path: string,
  body: unknown,
): ReturnType<Algorithm['start']> {
  const server = await startEbbServer(crew.first, [])
  try {
    for (const launch of crew.launches) await server.post('/api/agents', { ...bodyOf(launch), ...more })
    return { cleanUp: async () => (await server.post<StopReport>(path, body)).success, end: server.end }
  } catch (error) {
    await server.end()
    throw error
  }
}
