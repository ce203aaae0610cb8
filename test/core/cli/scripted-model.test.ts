import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { ebb, startEbb, temporaryHome } from '../../support/home.ts'

const ask = (url: string, content = 'a  riddle'): Promise<Response> =>
  fetch(`${url}/v1/messages`, { method: 'POST', body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content }] }) })

function scriptFile(home: string, script: unknown): string {
  const file = join(home, 'script.json')
  writeFileSync(file, typeof script === 'string' ? script : JSON.stringify(script))
  return file
}

it('scripted-model: answers by its script, prints each request, and ends with a signal', async () => {
  const home = temporaryHome()
  const run = startEbb(['scripted-model', '--script', scriptFile(home, { otherwise: 'An answer.' })], { home })
  await run.says('Ctrl-C')
  const url = /http:\/\/127\.0\.0\.1:\d+/.exec(run.output())?.[0] ?? ''
  expect(await (await ask(url)).text()).toContain('An answer.')
  await run.says('a riddle')
  run.signal('SIGTERM')
  const { code, stdout } = await run.ended
  expect(code).toBe(0)
  expect(stdout.toString()).toMatch(/\nanswered anthropic-messages no rule +a riddle\n$/)
})

it('scripted-model: prints JSON lines with --json, and ends with its standard input', async () => {
  const home = temporaryHome()
  const run = startEbb(['scripted-model', '--json', '--while-stdin'], { home })
  await run.says('\n')
  const { url, pid } = JSON.parse(run.output())
  expect(pid).toBe(run.pid)
  await (await ask(url)).text()
  await run.says('"answered"')
  run.endInput()
  const { code, stdout } = await run.ended
  expect(code).toBe(0)
  const states = stdout
    .toString()
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => JSON.parse(line))
  expect(states).toMatchObject([
    { prompt: 'a  riddle', state: 'open' },
    { prompt: 'a  riddle', state: 'answered' },
  ])
  expect(states[0]).not.toHaveProperty('body')
})

it('scripted-model: continues when the reader of its lines is gone', async () => {
  const run = startEbb(['scripted-model', '--json'], { home: temporaryHome() })
  await run.says('\n')
  const { url } = JSON.parse(run.output())
  run.child.stdout?.destroy()
  for (let turn = 0; turn < 5; turn++) expect((await ask(url)).status).toBe(200)
  run.signal('SIGTERM')
  expect((await run.ended).code).toBe(0)
})

it('scripted-model: drops whole lines while its reader is slow', async () => {
  const run = startEbb(['scripted-model', '--json', '--while-stdin'], { home: temporaryHome() })
  await run.says('\n')
  const { url } = JSON.parse(run.output())
  run.child.stdout?.pause()
  for (let turn = 0; turn < 100; turn++) await (await ask(url, 'x'.repeat(60_000))).text()
  run.child.stdout?.resume()
  // The command prints lines again as soon as its output is read again.
  while (!run.output().includes('the end')) await (await ask(url, 'the end')).text()
  run.endInput()
  const lines = (await run.ended).stdout.toString().trim().split('\n')
  const long = lines.map((line) => JSON.parse(line)).filter(({ prompt }) => prompt?.startsWith('xxx'))
  expect(long.length).toBeLessThan(100)
})

it('scripted-model: names what is wrong with a script or a port', async () => {
  const home = temporaryHome()
  const missing = await ebb(['scripted-model', '--script', join(home, 'none.json')], { home })
  expect([missing.code, missing.stderr]).toEqual([2, expect.stringContaining('there is no such file')])
  const broken = await ebb(['scripted-model', '--script', scriptFile(home, '{')], { home })
  expect([broken.code, broken.stderr]).toEqual([2, expect.stringContaining('cannot be read')])
  const unknown = await ebb(['scripted-model', '--script', scriptFile(home, { rules: [{ turns: [{ say: 'x' }] }] })], { home })
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('rules.0.turns.0.0: is no step')])
  const first = startEbb(['scripted-model', '--json', '--while-stdin'], { home })
  await first.says('\n')
  const { port } = new URL(JSON.parse(first.output()).url)
  const taken = await ebb(['scripted-model', '--model-port', port], { home })
  expect([taken.code, taken.stderr]).toEqual([2, expect.stringContaining(`Port ${port} is taken`)])
  first.endInput()
  await first.ended
})
