import {
  type Findings,
  grouped,
  type Leftover,
  type LeftoverEnd,
  type LeftoverKind,
  type Total,
  totalOf,
} from '../../doctor/judgement/leftover.ts'
import { wrap } from '../terminal/flow.ts'
import { cutLine, durationOf, flat, many, sizeOf } from '../terminal/text.ts'

/** The text about leftovers. Text of others, such as command lines and paths, is made one harmless line. */

const titles: Readonly<Record<LeftoverKind, string>> = {
  agent: 'Agents',
  tool: 'Programs started by tools of agents',
  'mcp-server': 'MCP servers',
  'tmux-session': 'tmux sessions',
  folder: 'Files',
  worktree: 'Worktrees',
}

/** How many leftovers of one group are listed, so that the other groups stay visible. JSON lists all. */
const mostShown = 20

export function leftoverLines({ leftovers, unseen }: Findings, showsAll: boolean, width: number | undefined): readonly string[] {
  const notes = unseen.map((text) => flat(text))
  if (leftovers.length === 0)
    return notes.length > 0
      ? notes
      : ['No leftovers of other agent runs: no orphaned agent, tool, MCP server, session or file. This machine is clean.']
  const fixable = leftovers.filter(({ fixes }) => fixes)
  return [
    'Leftovers of agent runs that Ebb did not start',
    ...grouped(leftovers).flatMap(([kind, found]) => [
      '',
      `${titles[kind]}: ${amount(totalOf(found))}`,
      ...found.slice(0, showsAll ? undefined : mostShown).flatMap((leftover) => lines(leftover, width)),
      ...(found.length > mostShown && !showsAll ? [`  and ${found.length - mostShown} more; --json lists all.`] : []),
    ]),
    '',
    ...notes,
    ending(fixable, leftovers.length),
  ]
}

function ending(fixable: readonly Leftover[], all: number): string {
  if (fixable.length === 0) return '"ebb doctor --fix" ends none of these: each may be in use, or may contain work.'
  const which = fixable.length === all ? (all === 1 ? 'it' : `all ${all}`) : `${fixable.length} of these ${all}`
  return `"ebb doctor --fix" would end ${which}: ${amount(totalOf(fixable))}. It asks first, and leaves alone what may be in use.`
}

function amount({ count, processes, memoryBytes, sizeBytes }: Total): string {
  const parts = [
    ...(processes > 0 ? [`${sizeOf(memoryBytes)} in ${many(processes, 'process', 'processes')}`] : []),
    ...(sizeBytes > 0 ? [`${sizeOf(sizeBytes)} on the disk`] : []),
  ]
  return parts.length === 0 ? String(count) : parts.join(', ')
}

const margin = ' '.repeat(11)

function lines(leftover: Leftover, width: number | undefined): readonly string[] {
  const age = leftover.ageMs === null ? '' : `, for ${ageIn(leftover.ageMs)}`
  const size =
    leftover.memoryBytes > 0 ? `, ${sizeOf(leftover.memoryBytes)}` : leftover.sizeBytes > 0 ? `, ${sizeOf(leftover.sizeBytes)}` : ''
  const heading = `  ${leftover.sure.padEnd(7)}  ${flat(leftover.what)}`
  const reasons = flat(
    [`${firstUp(`${size}${age}`.replace(/^, /, ''))}.`, ...leftover.evidence, leftover.fix].filter((text) => text !== '.').join(' '),
  )
  if (width === undefined) return [heading, `${margin}${reasons}`]
  return [cutLine(heading, width), ...wrap(reasons, width, margin).map((line, index) => (index === 0 ? `${margin}${line}` : line))]
}

const firstUp = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

function ageIn(ms: number): string {
  const hours = Math.floor(ms / 3_600_000)
  return hours >= 48 ? `${Math.floor(hours / 24)} days` : durationOf(ms)
}

const outcomes: Readonly<Record<LeftoverEnd['outcome'], string>> = { gone: 'gone', changed: 'skipped', left: 'LEFT' }

export function endLines(ended: readonly LeftoverEnd[]): readonly string[] {
  const left = ended.filter(({ outcome }) => outcome === 'left').length
  const gone = ended.filter(({ outcome }) => outcome === 'gone').length
  return [
    ...ended.flatMap(({ outcome, what, steps, says }) => [
      `  ${outcomes[outcome].padEnd(7)}  ${flat(what)}`,
      `${margin}${flat([...(steps.length > 0 ? [`${firstUp(steps.map(({ step, took }) => `${step} in ${durationOf(took)}`).join(', '))}.`] : []), says].join(' '))}`,
    ]),
    left === 0 ? `${gone} of ${ended.length} gone, proven.` : `${many(left, 'leftover')} could not be ended; see above.`,
  ]
}
