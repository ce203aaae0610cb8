import { sourcesSnapshot } from './agent-mark.ts'
import { baseName, isShell, recognise } from './agent-program.ts'
import { launchedBy } from './launcher.ts'
import type { ProcessFact, ProcessScene } from './process-fact.ts'

/** Programs that only start another program and wait for it: an orphaned wrapper is judged by the program that it started. */
const wrappers = /^(timeout|env|nice|ionice|nohup|stdbuf|script|setsid|xvfb-run|time)$/

/** The X server that `xvfb-run` starts, which reads no output. */
const silent = /^Xvfb$/

function isWrapper(argv: readonly string[]): boolean {
  const [first = '', second = ''] = argv
  const name = baseName(first)
  if (/^npm (exec|x) /.test(first)) return true
  if (isShell(name)) return argv.slice(1, 6).some((word) => /^-[a-z]*c$/.test(word)) || wrappers.test(baseName(second))
  const script = /^(node|nodejs|bun)$/.test(name) ? /(?:^|\/)(npx|npm|pnpm|bunx)(?:-cli)?(?:\.c?js)?$/.exec(second)?.[1] : undefined
  // `npm run` runs a script of a package, so it does not count as a launcher.
  if (script !== undefined) return launchedBy(script, argv.slice(2)) !== undefined
  return wrappers.test(name) || launchedBy(name, argv.slice(1)) !== undefined
}

export interface Wrapped {
  /** All processes that are reached through wrappers only, the wrappers included. */
  readonly reached: readonly ProcessFact[]
  /** The processes in `reached` that are not wrappers. */
  readonly ends: readonly ProcessFact[]
}

/** The descendants that are reached through wrappers only. Undefined when the process itself is not a wrapper. */
export function wrappedBy(fact: ProcessFact, children: ProcessScene['children']): Wrapped | undefined {
  if (!isWrapper(fact.argv)) return undefined
  const reached = new Set<ProcessFact>()
  const ends: ProcessFact[] = []
  const walked = new Set([fact])
  // Iterating a Set also visits the elements that are added meanwhile.
  for (const wrapper of walked)
    for (const child of children.get(wrapper.pid) ?? []) {
      if (silent.test(child.command) || reached.has(child)) continue
      reached.add(child)
      if (isWrapper(child.argv)) walked.add(child)
      ends.push(child)
    }
  return { reached: [...reached], ends: ends.filter((end) => !walked.has(end)) }
}

/** The first program below an agent that the agent may wait for. Further processes of an agent program, and MCP servers, do not count. */
export function workBelow(agent: ProcessFact, children: ProcessScene['children']): ProcessFact | undefined {
  // Iterating a Set also visits the elements that are added meanwhile.
  const walked = new Set([agent])
  for (const fact of walked)
    for (const child of children.get(fact.pid) ?? []) {
      const kind = recognise(child.argv, undefined)?.kind
      // A process without a command line is a kernel thread or is exiting.
      if (kind === 'mcp-server' || silent.test(child.command) || child.argv.length === 0) continue
      const isPassage = isWrapper(child.argv) && children.has(child.pid) && sourcesSnapshot(child.argv) === undefined
      if (kind !== 'agent' && !isPassage) return child
      walked.add(child)
    }
  return undefined
}
