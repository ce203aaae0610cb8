import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { conversation, requireWhole, rssBytes, said, script, statusAtEnd } from '../../support/conversation.ts'
import { temporaryHome } from '../../support/home.ts'
import type { Json } from '../../support/server.ts'
import { agentProcesses, useServer } from '../../support/shared-server.ts'

/** Agents with unexpected output. `claude` is a script that runs its prompt as a shell script. */

const programs = temporaryHome()
mkdirSync(join(programs, 'bin'))
writeFileSync(join(programs, 'bin', 'claude'), '#!/bin/sh\nexec sh\n')
chmodSync(join(programs, 'bin', 'claude'), 0o755)

const server = useServer([], { env: { PATH: `${join(programs, 'bin')}:${process.env.PATH}` } })

const archived = (id: string, stream = 'stdout'): string => join(server.home, 'archive', id, `${stream}.log`)
const shell = (text: string, more: object = {}): Promise<string> => server.command(['sh', '-c', text], more)
const limited = (argv: readonly string[], limits: object): Promise<string> =>
  server.launch({ type: 'command', prompt: '', configuration: { command: argv, limits } })

async function lines(argv: readonly string[]): Promise<readonly Json[]> {
  const id = await server.command(argv)
  expect(await statusAtEnd(server, id)).toBe('completed')
  return await said(server, id)
}

describe('unexpected output', () => {
  it('lines that are not JSON become messages of a JSON provider, and its result line is still found', async () => {
    const id = await server.launch({
      type: 'claude-code',
      prompt: `echo 'Warning: not JSON'; echo '{"type":"assist'; echo '[1,2]'; echo 'null'; echo '{}'; echo '{"type":"result","subtype":"success","is_error":false,"result":"done"}'`,
    })
    expect(await statusAtEnd(server, id)).toBe('completed')
    expect((await said(server, id)).map(({ type, content }) => `${type}: ${content}`)).toEqual([
      'response: Warning: not JSON',
      'response: {"type":"assist',
      'response: [1,2]',
      'response: null',
      'response: {}',
      'response: done',
    ])
  })

  it('JSON that is nested ten thousand levels deep stops neither agent nor server', async () => {
    const deep = (depth: number): string => `'{"a":'.repeat(${depth}) + '1' + '}'.repeat(${depth}) + '\\n'`
    const code = [1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 8_000, 10_000, 100_000].map(deep).join(' + ')
    const client = await server.socket()
    const id = await server.command(script(`process.stdout.write(${code} + 'end\\n')`))
    client.socket.emit('subscribe', { agentId: id, since: 0 })
    await client.event('agent:message', ({ message }) => message.content === 'end')
    expect(await statusAtEnd(server, id)).toBe('completed')
    expect(await said(server, id)).toHaveLength(10)
    requireWhole(client.of('agent:message').map(({ message }) => message))
  })

  it('an incomplete character at the end, and characters that arrive in two parts', async () => {
    const code = `const write = (...bytes) => require('fs').writeSync(1, Buffer.from(bytes));
      write(0x61, 0xc3); setTimeout(() => { write(0xa4, 0x0a); write(0xf0, 0x9f, 0x8c) }, 20)`
    const [whole, half] = await lines(script(code))
    expect(whole).toMatchObject({ content: 'aä' })
    expect(whole.metadata).toBeUndefined()
    expect(half).toMatchObject({ content: '\ufffd', metadata: { invalidUtf8: true } })
  })

  it('NULs, carriage returns, colours and empty lines are kept unchanged', async () => {
    const texts = await lines(script(`process.stdout.write('a\\0b\\r\\n\\x1b[31mred\\x1b[0m\\n\\n\\u2028\\ufeff\\n\\0\\n')`))
    expect(texts.map(({ content }) => content)).toEqual(['a\0b\r', '\u001b[31mred\u001b[0m', '', '\u2028\ufeff', '\0'])
  })

  it('a last line without a newline is a message', async () => {
    expect((await lines(['printf', 'one\\ntwo'])).map(({ content }) => content)).toEqual(['one', 'two'])
  })

  it('an agent without output has no messages of its own', async () => {
    expect(await lines(['true'])).toEqual([])
  })

  it('a line of 10 MB is cut to its first megabyte, with its length', async () => {
    const [long, next] = await lines(script(`process.stdout.write('x'.repeat(10_000_000) + '\\nnext\\n')`))
    expect(long.content).toBe('x'.repeat(1_048_576))
    expect(long.metadata).toEqual({ truncated: true, totalBytes: 10_000_000 })
    expect(next.content).toBe('next')
  })

  it('forty lines of a megabyte are answered and streamed in order', async () => {
    const client = await server.socket()
    const id = await server.command(script(`for (let i = 0; i < 40; i++) process.stdout.write(String(i % 10).repeat(1_000_000) + '\\n')`))
    client.socket.emit('subscribe', { agentId: id, since: 0 })
    expect(await statusAtEnd(server, id)).toBe('completed')
    expect((await said(server, id)).map(({ content }) => content.length)).toEqual(Array(40).fill(1_000_000))
    await client.event('agent:complete')
    requireWhole(client.of('agent:message').map(({ message }) => message))
    expect(client.of('agent:message')).toHaveLength(41)
  })
})

describe('streams', () => {
  it('200,000 lines at full speed are all saved once and in order', async () => {
    const client = await server.socket()
    const id = await server.command(['seq', '1', '200000'])
    client.socket.emit('subscribe', { agentId: id, since: 0 })
    expect(await statusAtEnd(server, id, 120_000)).toBe('completed')
    const all = await conversation(server, id)
    expect(all).toHaveLength(200_001)
    expect(all.slice(1).findIndex(({ content }, index) => content !== String(index + 1))).toBe(-1)
    await client.event('agent:complete')
    const live = client.of('agent:message').map(({ message }) => message)
    requireWhole(live)
    expect(live).toHaveLength(200_001)
    const reset = await server.post('/api/test/reset-environment')
    expect(reset).toMatchObject({ success: true, cleanedAgentsCount: 1, cleanedMessagesCount: 200_001 })
  }, 180_000)

  it('a running agent with 200,000 messages is reset within the timeout', async () => {
    const id = await shell('seq 1 200000; exec sleep 1000')
    const client = await server.socket()
    client.socket.emit('subscribe', { agentId: id, since: 200_000 })
    await client.event('agent:message', ({ message }) => message.sequenceNumber === 200_001)
    const report = await server.post('/api/test/reset-environment')
    expect(report).toMatchObject({ success: true, errors: [], cleanedAgentsCount: 1, cleanedMessagesCount: 200_001 })
    expect(await server.get('/api/test/verify-clean-state')).toMatchObject({ isClean: true, messageCount: 0 })
  }, 180_000)

  it('standard output and standard error each keep their order in one conversation', async () => {
    const id = await shell('i=0; while [ $i -lt 500 ]; do echo out$i; echo err$i >&2; i=$((i+1)); done')
    expect(await statusAtEnd(server, id)).toBe('completed')
    const all = await said(server, id)
    const of = (isError: boolean): readonly string[] =>
      all.filter(({ type }) => (type === 'error') === isError).map(({ content }) => content)
    expect(of(false)).toEqual(Array.from({ length: 500 }, (_, index) => `out${index}`))
    expect(of(true)).toEqual(Array.from({ length: 500 }, (_, index) => `err${index}`))
    expect(all.find(({ type }) => type === 'error')?.metadata).toEqual({ stream: 'stderr' })
  })

  it('a tool that truncates its standard output loses nothing', async () => {
    const id = await shell('echo one; echo two > /dev/stdout; : > /proc/self/fd/1; echo three; truncate -s 0 /dev/stdout; echo four')
    expect(await statusAtEnd(server, id)).toBe('completed')
    expect((await said(server, id)).filter(({ type }) => type === 'response').map(({ content }) => content)).toEqual([
      'one',
      'two',
      'three',
      'four',
    ])
    expect(readFileSync(archived(id), 'utf8')).toBe('one\ntwo\nthree\nfour\n')
  })

  it('an agent that closes its output runs until it ends', async () => {
    const id = await shell('echo one; exec >&- 2>&-; read line < "$0/go"; exit 3'.replace('$0', server.home))
    expect(await statusAtEnd(server, id)).toBe('failed')
    const other = await shell('echo one; exec >&- 2>&-; exec sleep 1000')
    await server.get(`/api/agents/${other}/messages?since=1&wait=5000`)
    expect((await server.get(`/api/agents/${other}/process`)).process_alive).toBe(true)
    expect(await statusAtEnd(server, other, 0)).toBe('running')
  })

  it('a daemon that keeps the pipe open is ended with the agent, and its earlier output is kept', async () => {
    const id = await shell('setsid sh -c "echo from the daemon; exec sleep 1000" & while ! [ -s "$0" ]; do :; done; echo main', {
      configuration: {
        command: [
          'sh',
          '-c',
          '(setsid sh -c "echo from the daemon; echo up >&3; exec sleep 1000" &) 3>&1 | { read up; echo main >&2; }; exit 0',
        ],
      },
    })
    expect(await statusAtEnd(server, id)).toBe('completed')
    expect(agentProcesses(server.home)).toEqual([])
    expect((await said(server, id)).map(({ content }) => content)).toContain('main')
  })
})

describe('the limit of output', () => {
  it('an agent that writes without end is ended at its limit, and its messages end there', async () => {
    const id = await limited(['yes', 'x'.repeat(99)], { logBytes: 1_000_000 })
    expect(await statusAtEnd(server, id)).toBe('failed')
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ error: { name: 'output_limit' } })
    const all = await said(server, id)
    expect(all).toHaveLength(10_001)
    expect(all.at(-1)).toMatchObject({ type: 'system', metadata: { truncated: true } })
  })

  it('an agent that ignores signals is killed before it fills the disk', async () => {
    const id = await limited(['sh', '-c', 'trap "" TERM INT; yes'], { logBytes: 200_000 })
    expect(await statusAtEnd(server, id)).toBe('failed')
    // During the usual grace of five seconds, `yes` would write several gigabytes.
    expect(statSync(archived(id)).size).toBeLessThan(1_500_000_000)
  })

  it('output of exactly the limit is allowed', async () => {
    const id = await limited(['sh', '-c', 'printf 0123456789; printf 012345678 >&2'], { logBytes: 10 })
    expect(await statusAtEnd(server, id)).toBe('completed')
    expect(await said(server, id)).toHaveLength(2)
  })

  it('300 MB of output do not stay in the memory of the server', async () => {
    const before = await rssBytes(server)
    const id = await limited(['sh', '-c', `yes ${'y'.repeat(20_000)} | head -c 300000000`], { logBytes: 400_000_000 })
    expect(await statusAtEnd(server, id, 120_000)).toBe('completed')
    expect(statSync(archived(id)).size).toBe(300_000_000)
    expect(await rssBytes(server)).toBeLessThan(before + 200_000_000)
  }, 180_000)
})
