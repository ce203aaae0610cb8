import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdirSync, readFileSync, readlinkSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import type * as Files from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { type ScriptedModel, startScriptedModel } from '../../../src/scripted-model/index.ts'
import { realAgents } from '../../support/documents.ts'
import { nodeProgram, root, temporaryHome } from '../../support/home.ts'
import { waitUntil } from '../../support/world.ts'

/** Folders whose removal fails with EIO. */
const stuck = vi.hoisted(() => new Set<string>())
vi.mock('node:fs/promises', async (original) => {
  const files = await original<typeof Files>()
  const rm: typeof files.rm = async (path, options) => {
    if (stuck.has(String(path))) throw new Error(`EIO: ${String(path)}`)
    await files.rm(path, options)
  }
  return { ...files, rm }
})

let model: ScriptedModel
beforeEach(async () => {
  // All homes of this test are in its own temporary folder.
  vi.stubEnv('TMPDIR', temporaryHome())
  model = await startScriptedModel()
})
afterEach(async () => {
  stuck.clear()
  await model.close()
  vi.unstubAllEnvs()
})

const startAnother = async (): Promise<void> => await (await startScriptedModel()).close()

const programs = { claude: 'claude-code', codex: 'codex', gemini: 'gemini-cli', opencode: 'opencode' }

it('scripted model: homeFor makes a home that only its owner can read', async () => {
  const home = temporaryHome()
  const env = await model.homeFor('codex', home)
  expect(env.HOME).toBe(home)
  const file = join(home, '.codex', 'config.toml')
  expect(readFileSync(file, 'utf8')).toContain(`base_url = "${model.url}/v1"`)
  expect(statSync(file).mode & 0o777).toBe(0o600)
  const { HOME: own = '' } = await model.homeFor('claude-code')
  expect(statSync(own).mode & 0o777).toBe(0o700)
  await expect(model.homeFor('toString', home)).rejects.toThrow('use one of claude-code, codex, gemini-cli, opencode')
  await model.close()
  expect(existsSync(own)).toBe(false)
  expect(existsSync(home)).toBe(true)
})

it('scripted model: the environment of each agent is the one in the guide', async () => {
  const guide = readFileSync(join(root, realAgents), 'utf8')
  const written = (row: string): Record<string, string> => {
    const cell = new RegExp(`^\\| ${row} \\| \`([^\`]*)\` \\|`, 'm').exec(guide)?.[1] ?? ''
    return Object.fromEntries(cell.split(' ').map((one) => one.split('=', 2)))
  }
  for (const [program, type] of Object.entries(programs)) {
    const home = temporaryHome()
    const env = Object.entries(await model.homeFor(type, home))
    const general = env.map(([name, value]) => [name, value.replaceAll(home, '$HOME').replaceAll(model.url, '$URL')])
    expect(Object.fromEntries(general), program).toEqual({ ...written('each'), ...written(`\`${program}\``) })
  }
})

it.each([
  ['claude-code', { CLAUDE_CONFIG_DIR: '.claude' }, ['CLAUDE_CODE_USE_BEDROCK', 'ANTHROPIC_AUTH_TOKEN', 'CLAUDE_CODE_OAUTH_TOKEN']],
  ['codex', { CODEX_HOME: '.codex' }, ['OPENAI_API_KEY', 'OPENAI_BASE_URL']],
  ['gemini-cli', { GEMINI_CLI_HOME: '' }, ['GOOGLE_API_KEY', 'GOOGLE_GENAI_USE_VERTEXAI', 'GEMINI_MODEL']],
  ['opencode', { XDG_CONFIG_HOME: '.config' }, ['OPENCODE_CONFIG', 'OPENCODE_CONFIG_DIR']],
])('scripted model: keeps %s in its own home, and away from proxies', async (type, inside, empty) => {
  const home = temporaryHome()
  const env = await model.homeFor(type, home)
  for (const [name, folder] of Object.entries(inside)) expect(env[name]).toBe(join(home, folder))
  for (const name of [...empty, 'HTTP_PROXY', 'https_proxy', 'ALL_PROXY']) expect(env[name]).toBe('')
  expect(env.NO_PROXY).toBe('127.0.0.1,localhost')
})

it('scripted model: close removes a home in which an agent still writes', async () => {
  const { HOME: home = '' } = await model.homeFor('codex')
  const writer = spawn('sh', ['-c', 'i=0; while [ $i -lt 5000 ] && : > f$i; do i=$((i + 1)); done'], { cwd: home, stdio: 'ignore' })
  const ended = once(writer, 'exit')
  await waitUntil(() => existsSync(join(home, 'f100')), 10_000, 'it writes')
  await model.close()
  expect(existsSync(home)).toBe(false)
  await ended
})

it('scripted model: close removes every home that it can, names the others, and tries them again when called again', async () => {
  const homes: string[] = []
  for (const type of Object.values(programs)) homes.push((await model.homeFor(type)).HOME ?? '')
  stuck.add(homes[0] ?? '')
  await expect(model.close()).rejects.toThrow(`remove them by hand: ${homes[0]}.`)
  expect(homes.map((home) => existsSync(home))).toEqual([true, false, false, false])
  stuck.clear()
  await model.close()
  expect(existsSync(homes[0] ?? '')).toBe(false)
})

it('scripted model: the start removes the homes of killed models, and nothing else', async () => {
  const { HOME: own = '' } = await model.homeFor('codex')
  const [folder, mine] = [dirname(own), basename(own)]
  const [, start = ''] = /-(\d+)-\w+$/.exec(mine) ?? []
  const { pid: dead = 0 } = spawnSync('true')
  const space = /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0]
  const named = (...words: unknown[]): string => join(folder, `ebb-agent-home-${words.join('-')}`)
  const abandoned = [named(space, dead, start, 'abcdef'), named(space, process.pid, Number(start) - 1, 'abcdef')]
  const others = [
    named(space, process.pid, start, 'abcdef'),
    named('1', dead, start, 'abcdef'),
    named(space, dead, 'abcdef'),
    named('notes'),
  ]
  for (const one of [...abandoned, ...others]) mkdirSync(join(one, 'deep'), { recursive: true })
  const foreign = named(space, dead, start, 'foreig')
  mkdirSync(foreign)
  // Only root can create a folder of another user. Without root, the folder belongs to the test's user and is removed.
  const isRoot = process.getuid?.() === 0
  if (isRoot) chownSync(foreign, 65_534, 65_534)
  const precious = temporaryHome()
  writeFileSync(join(precious, 'file'), '')
  const link = named(space, dead, start, 'linked')
  symlinkSync(precious, link)
  symlinkSync(precious, join(abandoned[0] ?? '', 'link'))
  await startAnother()
  expect([...abandoned, foreign].map((one) => existsSync(one))).toEqual([false, false, isRoot])
  expect([own, ...others, link, join(precious, 'file')].filter((one) => !existsSync(one))).toEqual([])
})

it('scripted model: the homes of a killed process are removed by the next start', async () => {
  const program = `import { startScriptedModel } from ${JSON.stringify(join(root, 'src/scripted-model/index.ts'))}
    const model = await startScriptedModel()
    console.log((await model.homeFor('codex')).HOME)`
  const killed = spawn(nodeProgram, ['--input-type=module', '-e', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [said] = await once(killed.stdout, 'data')
  const home = String(said).trim()
  await startAnother()
  expect(existsSync(home)).toBe(true)
  const ended = once(killed, 'close')
  killed.kill('SIGKILL')
  await ended
  await startAnother()
  expect(existsSync(home)).toBe(false)
})
