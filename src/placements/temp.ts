import { statSync } from 'node:fs'
import { isAbsolute } from 'node:path'
import { EbbError } from '../core/model/errors.ts'
import { label } from '../core/ports/handles.ts'
import { type Planned, planned } from '../core/ports/kind.ts'
import type { ProcessLaunch } from '../core/ports/process.ts'
import { tempFolderKind, tempFolderOf } from '../kinds/temp-folder/kind.ts'
import { toolLeftoversKind } from '../kinds/tool-leftovers/kind.ts'
import type { LaunchContext } from './files.ts'

const dayMs = 86_400_000

export interface TempPlan {
  readonly planned: readonly Planned[]
  /** The environment of the launch, with TMPDIR and the marked PATH added. */
  readonly env: ProcessLaunch['env']
}

/** Plans the temp folder of an agent and the search for the tool leftovers of its program. Plans neither unless the launch asks for it. */
export function planTemp(context: LaunchContext, scopeId: string, { hasTempFolder, leaves = [], env }: ProcessLaunch): TempPlan {
  if (!hasTempFolder && leaves.length === 0) return { planned: [], env }
  const base = context.tempDirectory()
  const path = tempFolderOf(base, scopeId)
  const plan: Planned[] = []
  if (hasTempFolder) {
    requireBase(base)
    plan.push(planned({ label: label('temp'), kind: tempFolderKind, spec: { installation: context.installation, base } }))
  }
  if (leaves.length > 0) {
    // A snapshot of the shell contains the environment tag of the agent. In the tag, the id of the scope stands between a slash and a dot.
    const spec = { places: leaves, marks: [`${path}/`, `/${scopeId}.`], sinceMs: context.now() - dayMs }
    plan.push(planned({ label: label('traces'), kind: toolLeftoversKind, spec }))
  }
  return { planned: plan, env: { ...env, ...(hasTempFolder && { TMPDIR: path }), ...(leaves.length > 0 && markedPath(env, path)) } }
}

/**
 * claude writes only the PATH of its environment into its snapshots of the shell, so the mark that attributes them must be in the PATH. The
 * marked folder is the last one and does not exist, so it changes no program that a lookup finds.
 */
function markedPath({ PATH }: ProcessLaunch['env'], path: string): { readonly PATH?: string } {
  return PATH ? { PATH: `${PATH}:${path}/bin` } : {}
}

function requireBase(base: string): void {
  if (isAbsolute(base) && isFolder(base)) return
  throw new EbbError(
    'launch_refused',
    `There is no folder ${base} for temporary files; set TMPDIR to an existing folder, for Ebb or in configuration.env.`,
  )
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}
