import { type Leftover, quoted } from './leftover.ts'

/** A worktree is somebody's work: it is shown with the command that removes it, and never touched. */
export interface WorktreeFact {
  readonly repository: string
  readonly path: string
  /** git's own words for why it may go; the folder is gone. */
  readonly prunable: string | undefined
  readonly isLocked: boolean
  readonly branch: string | undefined
  /** Undefined when git did not say. */
  readonly changes: number | undefined
  /** Commits that no branch, remote branch or tag has; undefined when git did not say. */
  readonly unreached: number | undefined
  readonly changedAtMs: number | undefined
  readonly isInUse: boolean
  /** In a folder where agents make their worktrees. */
  readonly isAgents: boolean
}

export function judgeWorktree(fact: WorktreeFact, nowMs: number): Leftover | undefined {
  const { path, repository, prunable, changes, unreached, changedAtMs } = fact
  if (fact.isInUse || fact.isLocked || (!fact.isAgents && prunable === undefined)) return undefined
  const isClean = changes === 0 && unreached === 0
  const command =
    prunable === undefined ? `git -C ${quoted(repository)} worktree remove ${quoted(path)}` : `git -C ${quoted(repository)} worktree prune`
  return {
    id: `worktree:${path}`,
    kind: 'worktree',
    what: `${path}${fact.branch === undefined ? '' : ` (${fact.branch})`}`,
    evidence: [
      ...(fact.isAgents ? ['It is in a folder where agents make their worktrees, and no process works in it.'] : []),
      ...(prunable === undefined ? workIn(changes, unreached) : [`git says that it can be pruned: ${prunable}.`]),
    ],
    sure: prunable === undefined ? (isClean ? 'likely' : 'perhaps') : 'sure',
    since: changedAtMs === undefined ? null : new Date(changedAtMs).toISOString(),
    ageMs: changedAtMs === undefined ? null : Math.max(0, Math.round(nowMs - changedAtMs)),
    memoryBytes: 0,
    sizeBytes: 0,
    processes: [],
    paths: [path],
    fixes: false,
    fix: `Never removed by Ebb. When it is not needed any more: ${command}`,
  }
}

function workIn(changes: number | undefined, unreached: number | undefined): readonly string[] {
  const said: string[] = []
  if (changes === undefined) said.push('Whether it has changes could not be seen.')
  else if (changes === 0) said.push('It has no changes that are not committed.')
  else said.push(`It has ${changes} ${changes === 1 ? 'change that is' : 'changes that are'} not committed: that is somebody's work.`)
  if (unreached === undefined) said.push('Whether its commits are in a branch could not be seen.')
  else if (unreached > 0) said.push(`${unreached} of its commits ${unreached === 1 ? 'is' : 'are'} in no branch, and would be lost.`)
  return said
}
