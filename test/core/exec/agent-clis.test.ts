import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { nodeProgram, root, temporaryHome } from '../../support/home.ts'
import { currentMark } from '../../support/mark.ts'
import { survivors, waitUntil } from '../../support/world.ts'

/**
 * `scripts/with-agents.mjs`, which installs the real agents into a cache. A real `npm install` loads 1.3 GB from the network, so the test
 * replaces `npm` by a script that installs four small programs. Everything else is real.
 */

const run = promisify(execFile)

interface Place {
  readonly cache: string
  readonly calls: () => readonly string[]
  readonly env: NodeJS.ProcessEnv
  /** Sets what the replacement of `npm` does at an install. */
  npm(script: string): void
}

const installs = (...programs: readonly string[]): string =>
  `mkdir -p node_modules/.bin; for p in ${programs.join(' ')}; do printf '#!/bin/sh\\necho "$0 1.2.3"\\n' > node_modules/.bin/$p; chmod +x node_modules/.bin/$p; done`
const all = installs('claude', 'codex', 'gemini', 'opencode')

function place(): Place {
  const base = temporaryHome()
  const bin = join(base, 'bin')
  const log = join(base, 'calls')
  mkdirSync(bin)
  const npm = (script: string): void => {
    writeFileSync(join(bin, 'npm'), `#!/bin/sh\necho "$1" >> ${log}\n[ "$1" = install ] || exit 0\n${script}\n`)
    chmodSync(join(bin, 'npm'), 0o755)
  }
  npm(all)
  return {
    cache: join(base, 'cache', 'ebb'),
    calls: () => (existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n') : []),
    env: { ...process.env, XDG_CACHE_HOME: join(base, 'cache'), PATH: `${bin}:${process.env.PATH}` },
    npm,
  }
}

const words = [join(root, 'scripts', 'with-agents.mjs'), 'sh', '-c', '"$EBB_AGENT_CLIS/claude" --version; echo "$EBB_AGENT_VERSIONS"']

async function install({ env }: Place): Promise<{ code: number; stdout: string }> {
  try {
    return { code: 0, stdout: (await run(nodeProgram, words, { env })).stdout }
  } catch (error) {
    const { code, stdout } = error as { code: number; stdout: string }
    return { code, stdout }
  }
}

describe('with-agents', () => {
  it('installs the agents once, and gives them to the command', async () => {
    const here = place()
    const first = await install(here)
    expect(first.code).toBe(0)
    expect(first.stdout).toContain('claude 1.2.3')
    expect(await install(here)).toMatchObject({ code: 0 })
    expect(here.calls()).toEqual(['install', 'rebuild'])
    expect(readdirSync(here.cache)).toEqual([expect.stringMatching(/^agents-[0-9a-f]{12}$/)])
  })

  it('leaves no half-made cache after a killed install, and the next install removes its remains', async () => {
    const here = place()
    here.npm(`${installs('claude')}; exec sleep 600`)
    const killed = spawn(nodeProgram, words, { env: here.env, stdio: 'ignore', detached: true })
    await waitUntil(() => here.calls().length === 1 && existsSync(here.cache) && readdirSync(here.cache).length === 1, 20_000, 'npm runs')
    const exited = once(killed, 'exit')
    process.kill(-(killed.pid ?? 0), 'SIGKILL')
    await exited
    await waitUntil(() => survivors(currentMark()), 5_000, 'npm is gone too')
    expect(readdirSync(here.cache)).toEqual([expect.stringMatching(/^staging-/)])
    here.npm(all)
    expect(await install(here)).toMatchObject({ code: 0 })
    expect(readdirSync(here.cache)).toEqual([expect.stringMatching(/^agents-/)])
  })

  it('two concurrent installs succeed', async () => {
    const here = place()
    // Each of the two concurrent installs waits until both have begun.
    here.npm(`${all}; until [ "$(grep -c install "${join(here.cache, '..', '..', 'calls')}")" = 2 ]; do sleep 0.02; done`)
    const both = await Promise.all([install(here), install(here)])
    expect(both.map(({ code }) => code)).toEqual([0, 0])
    for (const { stdout } of both) expect(stdout).toContain('claude 1.2.3')
    expect(readdirSync(here.cache)).toEqual([expect.stringMatching(/^agents-/)])
  })

  it('names the optional agents that could not be installed', async () => {
    const here = place()
    here.npm(installs('claude', 'gemini'))
    const { code, stdout } = await install(here)
    expect(code).toBe(0)
    expect(stdout).toContain('codex and opencode could not be installed and will be skipped')
  })

  it.each([
    ['a required one does not run', installs('claude', 'codex', 'opencode'), 'gemini was installed, but "gemini --version" fails'],
    ['npm fails', 'exit 7', 'the real agents could not be installed: "npm install" failed'],
  ])('fails and leaves no cache when %s', async (_, script, sentence) => {
    const here = place()
    here.npm(script)
    const { code, stdout } = await install(here)
    expect(code).toBe(1)
    expect(stdout).toContain(sentence)
    expect(readdirSync(here.cache)).toEqual([])
  })

  it('the lock file names no host', () => {
    const lock = readFileSync(join(root, 'test', 'agents', 'package-lock.json'), 'utf8')
    expect(lock).not.toMatch(/"resolved"|https?:/)
  })
})
