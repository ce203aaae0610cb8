import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import type { EbbOptions } from './home.ts'
import { installationOf } from './ledger-file.ts'
import { startServer, type TestServer } from './server.ts'
import { describe, processesOfHome } from './world.ts'

/** One server for all tests of a file. After each test everything is reset, and the system is checked without Ebb's help. */
export function useServer(words: readonly string[] = [], options: Partial<EbbOptions> = {}): TestServer {
  let running: TestServer | undefined
  const server = (): TestServer => {
    if (!running) throw new Error('The server of this file has not started.')
    return running
  }
  beforeAll(async () => {
    running = await startServer(words, options)
  })
  afterEach(async () => {
    const { home, call } = server()
    expect((await call('POST', '/api/test/reset-environment', { body: { force: true } })).body).toMatchObject({ success: true, errors: [] })
    expect(agentProcesses(home)).toEqual([])
  })
  afterAll(async () => await running?.stop())
  return new Proxy({} as TestServer, { get: (_, key) => Reflect.get(server(), key) })
}

/** Processes that agents of this home left running. They carry the environment tag, which neither the server nor its sentinel has. */
export function agentProcesses(home: string): readonly string[] {
  return processesOfHome(home, installationOf(home))
    .filter(({ environ }) => `\0${environ}`.includes('\0EBB_SCOPE='))
    .map(describe)
}
