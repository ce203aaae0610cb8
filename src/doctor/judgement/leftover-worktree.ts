import { type Leftover, quoted } from './leftover.ts'

/** A worktree may contain work that exists nowhere else: it is shown with the command that removes it, and never removed. */
export interface WorktreeFact {
  readonly repository: string
  readonly path: string
  /** git's reason why the worktree can be pruned (its folder no longer exists); undefined when it cannot. */
  readonly prunable: string | undefined
  readonly isLocked: boolean
  readonly branch: string | undefined
  /** The number of uncommitted changes; undefined when git failed or was not asked. */
  readonly changes: number | undefined
  /** The number of commits that no branch, remote branch or tag contains; undefined when git failed or was not asked. */
  readonly unreached: number | undefined
  readonly changedAtMs: number | undefined
  readonly isInUse: boolean
  /** True when the worktree is in a folder where agents make their worktrees. */
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
    fix: `Ebb never removes a worktree. To remove it yourself: ${command}`,
  }
}

function workIn(changes: number | undefined, unreached: number | undefined): readonly string[] {
  const evidence: string[] = []
  if (changes === undefined) evidence.push('Whether it has uncommitted changes could not be determined.')
  else if (changes === 0) evidence.push('It has no uncommitted changes.')
  else evidence.push(`It has ${changes} uncommitted ${changes === 1 ? 'change, which' : 'changes, which'} would be lost.`)
  if (unreached === undefined) evidence.push('Whether its commits are in a branch could not be determined.')
  else if (unreached > 0) evidence.push(`${unreached} of its commits ${unreached === 1 ? 'is' : 'are'} in no branch, and would be lost.`)
  return evidence
}
