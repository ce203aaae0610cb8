import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { openKinds } from '../../src/kinds/all.ts'
import { placementKindLabels, placementNames } from '../../src/placements/registry.ts'
import { providerTypes } from '../../src/providers/all.ts'
import { root } from '../support/home.ts'

/**
 * A placement, a kind and a provider are each added by their own files and one line of a list. So no other code names one. The code
 * asks the definition: for a trait, a label or a function.
 */

/** Folders whose code may name parts: code about one placement, kind or provider, or about leftovers of agents that Ebb did not start. */
const own = /^src\/(placements|kinds|providers|doctor|scripted-model|testing)\//

/** The names that other files may contain, with the reason. */
const allowed: Readonly<Record<string, readonly [names: readonly string[], why: string]>> = {
  'src/cli/doctor/leftovers.ts': [['tmux-session'], 'a kind of leftover of the doctor, which also finds sessions that Ebb did not start'],
  'src/cli/commands/run.ts': [['command'], '"ebb run command -- ARGV" has a grammar of its own'],
  'src/core/ports/placement.ts': [['process'], 'the placement of a launch that names none'],
  'src/core/ports/process.ts': [['process-tree'], 'the stored name of the kind, with its types, which the control plane needs'],
  'src/host/containment/cgroup.ts': [['tmux'], 'the stored name of the cgroup of terminals'],
  'src/server/http/routes/test.ts': [['synthetic'], 'the route for synthetic agents'],
  'src/server/mcp/deployment.ts': [['claude-code', 'command', 'tmux'], 'defaults and descriptions that clients know'],
  'src/server/runner/body.ts': [['claude-code'], 'the default of the runner protocol'],
  'web/src/agents/first-steps.tsx': [['synthetic'], 'the first page launches an example'],
  'web/src/api/shapes.ts': [['command'], 'a field of the configuration, not the provider'],
}

/** Names that are also common words. They count only in a line that speaks of the part. */
const common: ReadonlySet<string> = new Set([
  'command',
  'container',
  'directory',
  'file',
  'folder',
  'log',
  'process',
  'remote',
  'traces',
  'upload',
])
const aboutParts = /\b(kinds?|providers?|placements?|type(?! \w+ =))\b|Placement|Provider/

const parts = openKinds({} as Parameters<typeof openKinds>[0])
const names = [...placementNames, ...providerTypes, ...placementKindLabels.map(([kind]) => kind), ...parts.all.map(({ kind }) => kind)]

function namesIn(line: string): readonly string[] {
  const code = line.replace(/^\s*(\/?\*|\/\/).*/, '')
  return names.filter((name) => {
    if (common.has(name) && !aboutParts.test(code)) return false
    const isKey = !common.has(name) && new RegExp(`(^|[\\s{(,])${name}: `).test(code)
    return isKey || ["'", '"', '`'].some((quote) => code.includes(`${quote}${name}${quote}`))
  })
}

function found(): Readonly<Record<string, readonly string[]>> {
  const files = ['src', 'web/src'].flatMap((folder) =>
    (readdirSync(join(root, folder), { recursive: true }) as string[]).map((file) => `${folder}/${file}`),
  )
  const entries = files
    .filter((file) => /\.tsx?$/.test(file) && !own.test(file))
    .map((file) => [file, new Set(readFileSync(join(root, file), 'utf8').split('\n').flatMap(namesIn))] as const)
  return Object.fromEntries(entries.filter(([, { size }]) => size > 0).map(([file, set]) => [file, [...set].sort()]))
}

it('names of placements, kinds and providers: are in their own files, and elsewhere only where a reason is given', () => {
  expect(found()).toEqual(Object.fromEntries(Object.entries(allowed).map(([file, [those]]) => [file, those])))
})
