import type { ReleaseState, ResourceProgress } from '../../../src/core/model/progress.ts'
import type { ResourceReport } from '../../../src/core/model/report.ts'

/** Converts a close report or its progress into rows on a time axis. Times are milliseconds since the start of the close. */

export type Phase = 'waiting' | 'looking' | 'obligations' | 'polite' | 'terminate' | 'kill' | 'removed'

/**
 * Whether the last step of this kind ends running processes. For other kinds, such as a log, the last step only removes the resource, and
 * is shown as `removed`.
 */
export type EndsProcesses = (kind: string) => boolean

export interface Piece {
  readonly phase: Phase
  readonly fromMs: number
  /** The end of the phase. Undefined while the phase lasts. */
  readonly toMs: number | undefined
}

export interface Row {
  readonly key: string
  readonly kind: string
  readonly name: string
  readonly group: string
  readonly groupKind: string
  readonly state: ReleaseState
  readonly pieces: readonly Piece[]
  /** The names of the resources that this one waited for: those that depend on it. */
  readonly waitedFor: readonly string[]
  readonly proof: ResourceReport['proof']
  readonly error: string | undefined
  readonly notes: readonly string[]
}

type Resource = ResourceReport | ResourceProgress

/** Builds the rows in release order. The order follows from the dependencies, so it does not change when the report arrives. */
export function rowsOf(
  startedAt: string,
  resources: readonly Resource[],
  scope: { readonly kind: string; readonly id: string },
  endsProcesses: EndsProcesses,
): readonly Row[] {
  const names = new Map(resources.map((resource, index) => [keyOf(resource, index), resource.name]))
  const dependents = new Map<string, string[]>()
  for (const [index, resource] of resources.entries())
    for (const id of resource.dependsOn ?? []) dependents.set(id, [...(dependents.get(id) ?? []), keyOf(resource, index)])
  const turns = new Map<string, number>()
  for (const key of names.keys()) turnOf(key, dependents, turns)
  const rows = resources.map((resource, index) => {
    const key = keyOf(resource, index)
    return {
      key,
      kind: resource.kind,
      name: resource.name,
      group: resource.scope?.id ?? scope.id,
      groupKind: resource.scope?.kind ?? scope.kind,
      state: 'outcome' in resource ? resource.outcome : resource.state,
      pieces: piecesOf(Date.parse(startedAt), resource, endsProcesses(resource.kind)),
      waitedFor: (dependents.get(key) ?? []).map((id) => names.get(id) ?? id),
      proof: resource.proof,
      error: resource.error,
      notes: resource.notes ?? [],
    }
  })
  return rows.toSorted((a, b) => (turns.get(a.key) ?? 0) - (turns.get(b.key) ?? 0))
}

/** The number of resources that are released before this one, one after the other. A dependency cycle is cut where it is first met. */
function turnOf(key: string, dependents: ReadonlyMap<string, readonly string[]>, known: Map<string, number>): number {
  const found = known.get(key)
  if (found !== undefined) return found
  known.set(key, 0)
  const turn = Math.max(0, ...(dependents.get(key) ?? []).map((id) => 1 + turnOf(id, dependents, known)))
  known.set(key, turn)
  return turn
}

function keyOf({ id, kind, name }: Resource, index: number): string {
  return id ?? `${kind} ${name} ${index}`
}

const activeStates: readonly string[] = ['looking', 'obligations', 'polite', 'terminate', 'kill'] satisfies readonly Phase[]

function piecesOf(zeroMs: number, resource: Resource, endsProcesses: boolean): readonly Piece[] {
  const phaseOf = (step: Phase): Phase => (step === 'kill' && !endsProcesses ? 'removed' : step)
  const at = (instant: string): number => Math.max(0, Date.parse(instant) - zeroMs)
  const marked = [
    ...(resource.obligations ? [{ phase: 'obligations' as const, ...resource.obligations }] : []),
    ...resource.steps.map(({ step, at: began, took }) => ({ phase: phaseOf(step), at: began, took })),
  ]
  const first = resource.startedAt ?? marked[0]?.at
  const last = resource.endedAt ?? resource.proof?.at
  if (first === undefined) {
    // The resource was never processed: it waited until the end, or is still waiting.
    const hasEnded = last !== undefined
    return [{ phase: 'waiting', fromMs: 0, toMs: hasEnded ? at(last) : undefined }]
  }
  const pieces: Piece[] = []
  const add = (phase: Phase, fromMs: number, toMs: number | undefined): void => {
    if (toMs === undefined || toMs > fromMs) pieces.push({ phase, fromMs, toMs })
  }
  add('waiting', 0, at(first))
  let cursor = at(first)
  for (const { phase, at: began, took } of marked) {
    const from = Math.max(cursor, at(began))
    add('looking', cursor, from)
    // The step is added directly, because `add` drops phases without duration, and every step must be visible.
    pieces.push({ phase, fromMs: from, toMs: from + took })
    cursor = Math.max(cursor, from + took)
  }
  if (last !== undefined) add('looking', cursor, at(last))
  else if ('since' in resource && activeStates.includes(resource.state)) {
    const since = Math.max(cursor, at(resource.since))
    if (resource.state !== 'looking') add('looking', cursor, since)
    add(phaseOf(resource.state as Phase), resource.state === 'looking' ? cursor : since, undefined)
  }
  return pieces
}

export interface Group {
  readonly key: string
  readonly kind: string
  readonly rows: readonly Row[]
}

export function groupsOf(rows: readonly Row[]): readonly Group[] {
  const groups = new Map<string, Row[]>()
  for (const row of rows) groups.set(`${row.groupKind} ${row.group}`, [...(groups.get(`${row.groupKind} ${row.group}`) ?? []), row])
  return [...groups].map(([, own]) => ({ key: own[0]?.group ?? '', kind: own[0]?.groupKind ?? '', rows: own }))
}

export const isFinished = (state: ReleaseState): boolean => !isInProgress(state)
const isInProgress = (state: ReleaseState): boolean => state === 'waiting' || activeStates.includes(state)

/** True if a kill followed a gentler step. A kill as the first step does not count. */
export function neededKill({ pieces }: Pick<Row, 'pieces'>): boolean {
  const steps = pieces.filter(({ phase }) => phase === 'polite' || phase === 'terminate' || phase === 'kill')
  return steps.length > 1 && steps.at(-1)?.phase === 'kill'
}

/** The end of the row's last phase, or undefined while a phase is open. */
export function endOf({ pieces }: Pick<Row, 'pieces'>): number | undefined {
  return pieces.some(({ toMs }) => toMs === undefined) ? undefined : Math.max(0, ...pieces.map(({ toMs }) => toMs ?? 0))
}

/** The positions of the axis lines: about five, at round numbers. */
export function ticksOf(totalMs: number): readonly number[] {
  if (!(totalMs > 0)) return [0]
  const rough = totalMs / 5
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough
  return Array.from({ length: Math.floor(totalMs / step) + 1 }, (_, index) => index * step)
}
