import { chmodSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Provider } from '../../../src/core/ports/provider.ts'
import { isExecutable } from '../../../src/host/program.ts'
import { Catalogue, type CatalogueDeps } from '../../../src/providers/catalogue.ts'
import { claudeCode } from '../../../src/providers/claude-code.ts'
import { codex } from '../../../src/providers/codex.ts'
import { command } from '../../../src/providers/command.ts'
import { geminiCli } from '../../../src/providers/gemini-cli.ts'
import { opencode } from '../../../src/providers/opencode.ts'

const all: readonly Provider[] = [claudeCode, codex, geminiCli, opencode, command]

let folder: string
let asked: string[]

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ebb-catalogue-'))
  asked = []
})

afterEach(() => rmSync(folder, { recursive: true }))

function install(program: string, mode = 0o755): string {
  const path = join(folder, program)
  writeFileSync(path, '#!/bin/sh\n')
  chmodSync(path, mode)
  return path
}

function findProgram(program: string, env: Readonly<Record<string, string>>): string | undefined {
  return (env.PATH ?? '')
    .split(delimiter)
    .map((part) => join(part, program))
    .find(isExecutable)
}

function catalogue(
  versions: Readonly<Record<string, () => Promise<string | undefined>>> = {},
  deps: Partial<CatalogueDeps> = {},
): Catalogue {
  return new Catalogue(all, {
    environment: { PATH: folder },
    findProgram,
    readVersion: async (argv) => {
      asked.push(argv.join(' '))
      return versions[argv[0]?.slice(folder.length + 1) ?? '']?.()
    },
    patienceMs: 100,
    ...deps,
  })
}

async function versions(listing: Catalogue): Promise<unknown> {
  return Object.fromEntries((await listing.describe()).map(({ type, isAvailable, version }) => [type, version ?? isAvailable]))
}

describe('provider catalogue', () => {
  it('finds a provider by its type', () => {
    expect(catalogue().types).toEqual(['claude-code', 'codex', 'gemini-cli', 'opencode', 'command'])
    expect(catalogue().find('codex')).toBe(codex)
    expect(catalogue().find('constructor')).toBeUndefined()
  })

  it('a provider is available when its program is executable on the PATH, or it needs none', async () => {
    install('claude')
    install('codex', 0o644)
    const installed = (await catalogue().describe()).filter(({ isAvailable }) => isAvailable).map(({ type }) => type)
    expect(installed).toEqual(['claude-code', 'command'])
  })

  it('lists every provider in the shape of the public API', async () => {
    install('claude')
    const [first, second] = await catalogue({ claude: async () => '2.1.197 (Claude Code)\n' }).describe()
    expect(Object.keys(first ?? {})).toEqual(['type', 'name', 'description', 'isAvailable', 'version', 'capabilities', 'models', 'inputs'])
    expect(first).toMatchObject({ type: 'claude-code', isAvailable: true, version: '2.1.197' })
    expect(second).toMatchObject({ type: 'codex', isAvailable: false })
    expect(second).not.toHaveProperty('version')
  })

  it('omits only the version when a program fails, prints nothing, or hangs', async () => {
    for (const program of ['claude', 'codex', 'gemini', 'opencode']) install(program)
    const listing = catalogue({
      claude: () => Promise.reject(new Error('no')),
      codex: () => new Promise(() => {}),
      gemini: async () => undefined,
      opencode: async () => 'a fine version',
    })
    expect(await versions(listing)).toEqual({
      'claude-code': true,
      codex: true,
      'gemini-cli': true,
      opencode: 'a fine version',
      command: true,
    })
  })

  it('reads the versions of all programs at the same time', async () => {
    for (const program of ['claude', 'codex']) install(program)
    const both = Promise.withResolvers<string>()
    const meet = async (): Promise<string> => {
      if (asked.length === 2) both.resolve('1.2.3')
      return both.promise
    }
    expect(await versions(catalogue({ claude: meet, codex: meet }, { patienceMs: 10_000 }))).toMatchObject({
      'claude-code': '1.2.3',
      codex: '1.2.3',
    })
  })

  it('reads a version once, and again only when that failed or the program was replaced', async () => {
    const path = install('claude')
    const codexPath = install('codex')
    const listing = catalogue({ claude: async () => '1.0.0', codex: () => Promise.reject(new Error('no')) })
    await listing.describe()
    await listing.describe()
    expect(asked.filter((one) => one === `${path} --version`)).toHaveLength(1)
    expect(asked.filter((one) => one === `${codexPath} --version`)).toHaveLength(2)
    utimesSync(path, 1, 1)
    await listing.describe()
    expect(asked.filter((one) => one === `${path} --version`)).toHaveLength(2)
  })

  it('does not start a hanging program again, and uses its late answer', async () => {
    install('claude')
    const slow = Promise.withResolvers<string>()
    const listing = catalogue({ claude: () => slow.promise })
    expect(await versions(listing)).toMatchObject({ 'claude-code': true })
    slow.resolve('3.0.0')
    expect(await versions(listing)).toMatchObject({ 'claude-code': '3.0.0' })
    expect(asked).toHaveLength(1)
  })

  it('reads the version again when the target of a symlink was replaced or exchanged', async () => {
    const target = install('claude-2.1')
    symlinkSync(target, join(folder, 'claude'))
    const listing = catalogue({ claude: async () => '2.1.0' })
    await listing.describe()
    utimesSync(target, 1, 1)
    await listing.describe()
    // The symlink gets another target, with the same modification time as the old one.
    const next = install('claude-2.2')
    utimesSync(next, 1, 1)
    rmSync(join(folder, 'claude'))
    symlinkSync(next, join(folder, 'claude'))
    await listing.describe()
    expect(asked).toEqual(Array(3).fill(`${join(folder, 'claude')} --version`))
  })

  it.each(all.map((provider) => [provider.type, provider] as const))('has at most one default among the models of %s', (_, provider) => {
    expect(provider.models.filter(({ isDefault }) => isDefault).length).toBeLessThanOrEqual(1)
    expect(new Set(provider.models.map(({ id }) => id)).size).toBe(provider.models.length)
  })
})
