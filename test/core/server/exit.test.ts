import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ebb, temporaryHome } from '../../support/home.ts'
import { installationOf, openBooks } from '../../support/ledger-file.ts'
import { startServer } from '../../support/server.ts'
import { agentProcesses } from '../../support/shared-server.ts'
import { processesOfHome, describe as show, waitUntil } from '../../support/world.ts'

/** Stops a server while the archive of a log cannot be written. */
async function leaveWithBrokenArchive(
  words: readonly string[],
): Promise<{ home: string; code: number | null; stderr: string; id: string }> {
  const home = temporaryHome()
  const server = await startServer(words, { home })
  const id = await server.command(['sleep', '1000'])
  const inTheWay = join(home, 'archive', id, 'stdout.log')
  mkdirSync(inTheWay, { recursive: true })
  writeFileSync(join(inTheWay, 'x'), '')
  await server.stop()
  const { code, stderr } = await server.ebb.ended
  expect(agentProcesses(home)).toEqual([])
  return { home, code, stderr, id }
}

describe('a log that cannot be archived at the exit of the server', () => {
  it('stays in the ledger, and the exit code is 3', async () => {
    const { home, code, stderr, id } = await leaveWithBrokenArchive([])
    expect({ code, stderr }).toEqual({ code: 3, stderr: expect.stringContaining('stdout.log') })
    await waitUntil(() => processesOfHome(home, installationOf(home)).map(show), 15_000, 'the sentinel has tried too')
    expect(openBooks(home)).toEqual([expect.stringContaining('stdout.log'), expect.stringContaining('incarnation')])
    const status = await ebb(['status', '--json'], { home })
    expect(JSON.parse(status.stdout.toString()).heldBack).toHaveLength(1)
    await using next = await startServer([], { home })
    expect(await next.get('/api/cleanup/status')).toMatchObject({ heldBack: [expect.stringContaining(id)] })
    expect(await next.post('/api/test/reset-environment')).toMatchObject({ success: true, cleanedAgentsCount: 1 })
  })

  it('is given up with --exit-give-up afterDeadline', async () => {
    const { home, code } = await leaveWithBrokenArchive(['--exit-give-up', 'afterDeadline'])
    expect(code).toBe(0)
    expect(openBooks(home)).toEqual([])
  })
})
