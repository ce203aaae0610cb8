import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { root } from '../support/home.ts'

/**
 * Each pattern of the import rules must refuse one import. Two mistakes switch a rule off without a message: oxlint ignores a pattern that
 * it cannot compile, and of two overrides that match a file, the later replaces the earlier.
 */

interface Override {
  readonly files: readonly string[]
  readonly rules: { readonly 'no-restricted-imports'?: readonly [string, { readonly patterns: readonly { readonly regex: string }[] }] }
}

const { overrides } = JSON.parse(readFileSync(join(root, '.oxlintrc.json'), 'utf8')) as { readonly overrides: readonly Override[] }

/** For each folder, example imports that lint must refuse there: one for each pattern of its lint rule, in the same order. */
const forbidden: Readonly<Record<string, readonly string[]>> = {
  'src/core/model': ['../ports/clock.ts'],
  'src/core/ports': ['../engine/api.ts'],
  'src/core/engine': ['../../store/sqlite/store.ts', 'node:fs'],
  'src/host': ['../kinds/log/kind.ts', '../core/engine/api.ts'],
  'src/kinds/log': ['../../placements/docker/kind.ts', '../../core/engine/api.ts'],
  'src/placements/docker': ['../../agents/run.ts', '../../core/engine/api.ts', '../../config/config.ts'],
  'src/providers': ['../host/clock.ts', '../core/engine/api.ts', 'node:child_process'],
  'src/store/sqlite': ['../../host/clock.ts', '../../core/engine/api.ts', 'node:child_process'],
  'src/config': ['../host/clock.ts', '../core/engine/api.ts', 'node:child_process', '../placements/docker/kind.ts'],
  'src/agents': ['../kinds/log/kind.ts', '../core/engine/scope-registry.ts', 'node:net'],
  'src/agents/stream': ['../../kinds/log/kind.ts', '../../core/engine/scope-registry.ts', 'node:child_process'],
  'src/tasks': ['../server/http/app.ts', '../core/engine/scope-registry.ts', 'node:fs'],
  'src/server/http': ['../../store/sqlite/store.ts', '../../core/engine/launch.ts', 'node:child_process'],
  'src/cli/commands': ['../../host/clock.ts', '../../core/engine/progress.ts', 'node:child_process'],
  'src/library': ['../cli/cli.ts', '../core/engine/launch.ts', 'node:child_process'],
  'src/doctor/judgement': ['../search/folders.ts'],
  'src/doctor/search': ['../../kinds/log/kind.ts', '../../core/engine/api.ts'],
  'src/testing': ['../agents/run.ts'],
  'src/scripted-model': ['../core/ports/clock.ts'],
  'web/src': ['../../src/core/ports/clock.ts'],
}

let folder = ''
let reported: readonly string[] = []

const fileOf = (place: string, at: number): string => `${place}/planted-${at}.ts`

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'ebb-import-rules-'))
  copyFileSync(join(root, '.oxlintrc.json'), join(folder, '.oxlintrc.json'))
  for (const [place, imports] of Object.entries(forbidden))
    for (const [at, path] of imports.entries()) {
      const file = join(folder, fileOf(place, at))
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, `import type { Planted } from '${path}'\nexport type Alias = Planted\n`)
    }
  reported = refusedIn(folder)
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** The files for which oxlint reports a restricted import. It exits with 1 when it reports anything. */
function refusedIn(directory: string): readonly string[] {
  let output: string
  try {
    output = execFileSync(join(root, 'node_modules', '.bin', 'oxlint'), ['--format=unix', 'src', 'web'], {
      cwd: directory,
      encoding: 'utf8',
    })
  } catch (error) {
    output = (error as { readonly stdout: string }).stdout
  }
  return output.split('\n').flatMap((line) => (line.includes('no-restricted-imports') ? (line.split(':')[0] ?? '') : []))
}

it.each(Object.entries(forbidden))('import rules of %s: each refuses a planted import', (place, imports) => {
  const planted = imports.map((_path, at) => fileOf(place, at))
  expect(planted.filter((file) => !reported.includes(file))).toEqual([])
})

const publicEngineFiles = ['api.ts', 'race.ts', 'progress.ts', 'launch.ts']

it('import rules: each engine file that is not public is refused in agents and cli', () => {
  const inner = readdirSync(join(root, 'src', 'core', 'engine')).filter((name) => !publicEngineFiles.includes(name))
  for (const place of ['src/agents', 'src/cli/commands']) {
    const patterns = overrides.find(({ files }) => files.some((glob) => place.startsWith(glob.replace(/\/\*\*$/, ''))))
    const regexes = (patterns?.rules['no-restricted-imports']?.[1].patterns ?? []).map(({ regex }) => new RegExp(regex))
    const accepted = inner.filter((name) => !regexes.some((regex) => regex.test(`../core/engine/${name}`)))
    expect(accepted).toEqual([])
  }
})

it('import rules: each pattern has a planted import', () => {
  for (const { files, rules } of overrides) {
    const patterns = rules['no-restricted-imports']?.[1].patterns ?? []
    for (const glob of files) {
      const place = glob.replace(/\/\*\*$/, '')
      const planted = Object.entries(forbidden).find(([name]) => name === place || name.startsWith(`${place}/`))
      expect([glob, planted?.[1].length]).toEqual([glob, patterns.length])
    }
  }
})
