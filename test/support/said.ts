import type { Json, TestServer } from './server.ts'

/** The output of an agent on a test server, and the wait for more of it. */

/** The output of an agent without its first message, the prompt. */
export async function lines(server: TestServer, id: string): Promise<string[]> {
  return (await server.get<Json[]>(`/api/agents/${id}/messages`)).slice(1).map(({ content }) => content)
}

/** The longest wait for the next line. On a busy host, a restarted server or daemon has taken more than ten seconds to continue. */
const patienceMs = 30_000

export async function hasSaid(server: TestServer, id: string, count: number): Promise<void> {
  let untilMs = performance.now() + patienceMs
  for (let seen = 1; seen <= count; ) {
    const news: Json[] = await server.get(`/api/agents/${id}/messages?since=${seen}&wait=10000`)
    if (news.length > 0) untilMs = performance.now() + patienceMs
    else if (performance.now() > untilMs) throw new Error(await silence(server, id, seen))
    seen = news.at(-1)?.sequenceNumber ?? seen
  }
}

/** The state of an agent whose output stopped, for the error message. */
async function silence(server: TestServer, id: string, seen: number): Promise<string> {
  const [agent, processes] = await Promise.all([server.get<Json>(`/api/agents/${id}`), server.get<Json>(`/api/agents/${id}/process`)])
  return `The agent sent no message after number ${seen}: ${JSON.stringify(agent)} ${JSON.stringify(processes)}\n${server.ebb.errorOutput().slice(-4_000)}`
}

export const ended = (server: TestServer, id: string): Promise<Json> => server.get(`/api/agents/${id}/status?wait=20000`)
