import { lstatSync, realpathSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import type { Leftover } from '../judgement/leftover.ts'
import { judgeWorktree, type WorktreeFact } from '../judgement/leftover-worktree.ts'
import type { ProcessFact } from '../judgement/process-fact.ts'
import { namesIn, readLink, tryRead } from './proc-facts.ts'
import { type Answer, ask } from './program.ts'

/** Worktrees are searched for in the current repository, and in the agents' folder of the user's home. */
export interface WorktreePlace {
  readonly cwd: string
  readonly environment: Readonly<Record<string, string>>
}

const maxListed = 200

export async function findWorktrees(place: WorktreePlace, table: ReadonlyMap<number, ProcessFact>): Promise<readonly Leftover[]> {
  const home = place.environment.HOME ?? ''
  const inHome = isAbsolute(home) ? join(home, '.claude', 'worktrees') : ''
  const roots = new Set<string>()
  for (const folder of [place.cwd, ...foldersIn(inHome)].slice(0, maxListed)) {
    const repository = await repositoryOf(folder, place)
    if (repository !== undefined) roots.add(repository)
  }
  const cwds = [...table.values()].flatMap(({ pid }) => readLink(`/proc/${pid}/cwd`) ?? [])
  const found: Leftover[] = []
  for (const repository of roots) {
    const agents = [inHome, join(repository, '.claude', 'worktrees'), join(repository, '.worktrees')].flatMap(real)
    for (const one of (await listed(repository, place)).slice(0, maxListed)) {
      const isIn = (folder: string): boolean => folder === one.path || folder.startsWith(`${one.path}/`)
      const isAgents = agents.some((folder) => one.path.startsWith(`${folder}/`))
      if (!isAgents && one.prunable === undefined) continue
      const isInUse = cwds.some(isIn) || isIn(place.cwd)
      const seen = isInUse || one.prunable !== undefined ? {} : await changesIn(one, place)
      const leftover = judgeWorktree(
        { changes: undefined, unreached: undefined, changedAtMs: undefined, ...one, ...seen, repository, isInUse, isAgents },
        Date.now(),
      )
      if (leftover) found.push(leftover)
    }
  }
  return found
}

const real = (folder: string): readonly string[] => (folder === '' ? [] : [tryRead(() => realpathSync(folder)) ?? folder])

function foldersIn(folder: string): readonly string[] {
  return (folder === '' ? [] : (namesIn(folder) ?? []))
    .map((name) => join(folder, name))
    .filter((path) => tryRead(() => lstatSync(path))?.isDirectory())
}

/** The path of the main worktree of a folder's repository. git lists the main worktree first. */
async function repositoryOf(folder: string, place: WorktreePlace): Promise<string | undefined> {
  const answer = await git(folder, place, 'worktree', 'list', '--porcelain')
  const path = 'text' in answer ? /^worktree (.+)$/m.exec(answer.text)?.[1] : undefined
  return path !== undefined && isAbsolute(path) ? path : undefined
}

type Listed = Pick<WorktreeFact, 'path' | 'prunable' | 'isLocked' | 'branch'>

async function listed(repository: string, place: WorktreePlace): Promise<readonly Listed[]> {
  const answer = await git(repository, place, 'worktree', 'list', '--porcelain')
  if ('problem' in answer) return []
  const [, ...others] = answer.text.split('\n\n')
  return others.flatMap((block) => {
    const field = (name: string): string | undefined => new RegExp(`^${name}(?: (.*))?$`, 'm').exec(block)?.[1]
    const path = field('worktree')
    if (path === undefined) return []
    const isLocked = /^locked( |$)/m.test(block)
    return [{ path, isLocked, prunable: field('prunable'), branch: field('branch')?.replace(/^refs\/heads\//, '') }]
  })
}

type Work = Pick<WorktreeFact, 'changes' | 'unreached' | 'changedAtMs'>

async function changesIn({ path, branch }: Listed, place: WorktreePlace): Promise<Work> {
  const status = await git(path, place, 'status', '--porcelain')
  const folder = await git(path, place, 'rev-parse', '--absolute-git-dir')
  const lines = 'text' in status ? status.text.split('\n').filter(Boolean) : undefined
  const touched = [path, ...('text' in folder ? ['index', 'HEAD', 'logs/HEAD'].map((name) => join(folder.text.trim(), name)) : [])]
  const times = touched.flatMap((one) => tryRead(() => lstatSync(one).mtimeMs) ?? [])
  const unreached = branch === undefined ? await unreachedIn(path, place) : 0
  return { changes: lines?.length, unreached, changedAtMs: times.length === 0 ? undefined : Math.max(...times) }
}

/** The number of commits of a detached HEAD that are in no branch, remote branch or tag; undefined when git failed. */
async function unreachedIn(path: string, place: WorktreePlace): Promise<number | undefined> {
  const answer = await git(path, place, 'rev-list', '--count', 'HEAD', '--not', '--branches', '--remotes', '--tags')
  return 'text' in answer && /^\d+\s*$/.test(answer.text) ? Number(answer.text) : undefined
}

/** Runs git without optional locks, and without the hooks and the file system monitor of the repository. */
function git(folder: string, { environment }: WorktreePlace, ...words: readonly string[]): Promise<Answer> {
  const { PATH = '/usr/bin:/bin', HOME = '/' } = environment
  const safe = ['-c', 'core.fsmonitor=false', '-c', 'core.hooksPath=/dev/null']
  return ask('git', ['-C', folder, ...safe, ...words], { PATH, HOME, LC_ALL: 'C', GIT_OPTIONAL_LOCKS: '0', GIT_TERMINAL_PROMPT: '0' })
}
