import { sourcesSnapshot } from './agent-mark.ts'
import { baseName, isShell, recognise } from './agent-program.ts'
import { launchedBy } from './launcher.ts'
import type { ProcessFact, ProcessScene } from './process-fact.ts'

/** Programs that only start another one and wait for it: an orphan of this kind is what it has started. */
const wrappers = /^(timeout|env|nice|ionice|nohup|stdbuf|script|setsid|xvfb-run|time)$/

/** Of `xvfb-run`, which keeps no output. */
const silent = /^Xvfb$/

function isWrapper(argv: readonly string[]): boolean {
  const [first = '', second = ''] = argv
  const name = baseName(first)
  if (/^npm (exec|x) /.test(first)) return true
  if (isShell(name)) return argv.slice(1, 6).some((word) => /^-[a-z]*c$/.test(word)) || wrappers.test(baseName(second))
  const script = /^(node|nodejs|bun)$/.test(name) ? /(?:^|\/)(npx|npm|pnpm|bunx)(?:-cli)?(?:\.c?js)?$/.exec(second)?.[1] : undefined
  // `npm run` is somebody's own script, and no launcher.
  if (script !== undefined) return launchedBy(script, argv.slice(2)) !== undefined
  return wrappers.test(name) || launchedBy(name, argv.slice(1)) !== undefined
}

export interface Wrapped {
  /** Wrappers below it, and what the last of them have started. */
  readonly reached: readonly ProcessFact[]
  /** Of those, which are no wrappers. */
  readonly ends: readonly ProcessFact[]
}

/** Everybody below it who is reached through wrappers only; undefined when it is none itself. */
export function wrappedBy(one: ProcessFact, children: ProcessScene['children']): Wrapped | undefined {
  if (!isWrapper(one.argv)) return undefined
  const reached = new Set<ProcessFact>()
  const ends: ProcessFact[] = []
  const walked = new Set([one])
  // Grows while it is walked.
  for (const wrapper of walked)
    for (const child of children.get(wrapper.pid) ?? []) {
      if (silent.test(child.command) || reached.has(child)) continue
      reached.add(child)
      if (isWrapper(child.argv)) walked.add(child)
      ends.push(child)
    }
  return { reached: [...reached], ends: ends.filter((end) => !walked.has(end)) }
}

/** What an agent has started and may wait for: none of its own other processes, and none of its MCP servers. */
export function workBelow(agent: ProcessFact, children: ProcessScene['children']): ProcessFact | undefined {
  // Grows while it is walked.
  const walked = new Set([agent])
  for (const one of walked)
    for (const child of children.get(one.pid) ?? []) {
      const kind = recognise(child.argv, undefined)?.kind
      // One without words has ended, and nobody has asked how.
      if (kind === 'mcp-server' || silent.test(child.command) || child.argv.length === 0) continue
      const isPassage = isWrapper(child.argv) && children.has(child.pid) && sourcesSnapshot(child.argv) === undefined
      if (kind !== 'agent' && !isPassage) return child
      walked.add(child)
    }
  return undefined
}
