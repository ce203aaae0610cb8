import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { ebb, startEbb, temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import { startServer } from '../../support/server.ts'

/** Signals that are ignored when Ebb starts, as under nohup: Ebb ignores them, and so does the command of `ebb exec`. */

const ignoring = (signals: string): readonly string[] => ['sh', '-c', `trap '' ${signals}; exec "$@"`, 'sh']
const showIgnored = ['grep', 'SigIgn', '/proc/self/status']

function without(signals: string): string {
  const [program = '', ...words] = [...ignoring(signals), ...showIgnored]
  return execFileSync(program, words, { encoding: 'utf8' })
}

describe.each(['cgroup', 'subreaper', 'scan'] as const)('the command of ebb exec under %s', (containment) => {
  needs(containment)
  const exec = (words: readonly string[]) => ['exec', '--containment', containment, '--', ...words]

  it.each(['HUP TERM', 'PIPE USR1 TSTP'])('ignores %s when they were ignored before, and no other signal', async (signals) => {
    const { stdout } = await ebb(exec(showIgnored), { home: temporaryHome(), through: ignoring(signals) })
    expect(stdout.toString()).toBe(without(signals))
  })

  it('does not ignore the signals that Node ignores, or that a shell ignores for background jobs', async () => {
    for (const through of [[], ignoring('INT QUIT')]) {
      const { stdout } = await ebb(exec(showIgnored), { home: temporaryHome(), through })
      expect(stdout.toString()).toMatch(/^SigIgn:\t0+\n$/)
    }
  })

  it('survives an ignored signal, and still gets the others', async () => {
    const script = 'trap "echo news" USR1; echo ready; while :; do read -r line && exit 7; done'
    const run = startEbb(exec(['sh', '-c', script]), { home: temporaryHome(), through: ['nohup'] })
    await run.says('ready')
    run.signal('SIGHUP')
    run.signal('SIGUSR1')
    await run.says('news')
    run.child.stdin?.end('enough\n')
    expect(await run.ended).toMatchObject({ code: 7 })
  })
})

describe('a server under nohup', () => {
  it('survives SIGHUP, starts agents that ignore no signal, and exits with 0 on SIGTERM', async () => {
    await using server = await startServer([], { through: ['nohup'] })
    server.ebb.signal('SIGHUP')
    const id = await server.command(['sh', '-c', 'grep SigIgn /proc/self/status; exec sleep 1000'])
    const client = await server.socket()
    client.socket.emit('subscribe', { agentId: id, since: 1 })
    expect((await client.event('agent:message')).message.content).toMatch(/^SigIgn:\t0+$/)
    server.ebb.signal('SIGTERM')
    expect(await server.ebb.ended).toMatchObject({ code: 0 })
  })
})

it('a server started in the background of a script exits on SIGINT', async () => {
  await using server = await startServer([], { through: ignoring('INT QUIT') })
  server.ebb.signal('SIGINT')
  expect(await server.ebb.ended).toMatchObject({ code: 0 })
})
