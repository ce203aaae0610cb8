import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { ebb, startEbb, temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import { startServer } from '../../support/server.ts'

/** Signals that were ignored when Ebb was started, as by nohup: ignored by Ebb, and by the command of `ebb exec`. */

const ignoring = (signals: string): readonly string[] => ['sh', '-c', `trap '' ${signals}; exec "$@"`, 'sh']
const look = ['grep', 'SigIgn', '/proc/self/status']

function without(signals: string): string {
  const [program = '', ...words] = [...ignoring(signals), ...look]
  return execFileSync(program, words, { encoding: 'utf8' })
}

describe.each(['cgroup', 'subreaper', 'scan'] as const)('under %s the command of exec', (containment) => {
  needs(containment)
  const exec = (words: readonly string[]) => ['exec', '--containment', containment, '--', ...words]

  it.each(['HUP TERM', 'PIPE USR1 TSTP'])('ignores %s, if they were ignored before, and nothing else', async (signals) => {
    const { stdout } = await ebb(exec(look), { home: temporaryHome(), through: ignoring(signals) })
    expect(stdout.toString()).toBe(without(signals))
  })

  it('ignores nothing by itself, neither what Node ignores nor what a shell ignores for all in its background', async () => {
    for (const through of [[], ignoring('INT QUIT')]) {
      const { stdout } = await ebb(exec(look), { home: temporaryHome(), through })
      expect(stdout.toString()).toMatch(/^SigIgn:\t0+\n$/)
    }
  })

  it('is not ended by a signal that is ignored, and still hears the others', async () => {
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
  it('outlives its terminal, starts agents that hear every signal, and leaves in order when it is asked to', async () => {
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

it('a server in the background of a script leaves when it gets SIGINT', async () => {
  await using server = await startServer([], { through: ignoring('INT QUIT') })
  server.ebb.signal('SIGINT')
  expect(await server.ebb.ended).toMatchObject({ code: 0 })
})
